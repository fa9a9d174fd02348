"""The deployment files parse, and say what the program expects of them."""

import configparser
import io
import re
from pathlib import Path

import pytest
import yaml
from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

INSTRUCTIONS = {
    "ADD", "ARG", "CMD", "COMMENT", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK",
    "LABEL", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip


def dockerfile(name: str) -> DockerfileParser:
    return DockerfileParser(fileobj=io.BytesIO((DEPLOY / name).read_bytes()))


@pytest.mark.parametrize("name", ["collector.Dockerfile", "service.Dockerfile"])
def test_a_dockerfile_parses_and_copies_only_what_exists(name: str):
    parsed = dockerfile(name)
    assert parsed.structure[0]["instruction"] in ("COMMENT", "FROM")
    for line in parsed.structure:
        assert line["instruction"] in INSTRUCTIONS, line["content"]
        if line["instruction"] == "COPY":
            *sources, _target = line["value"].split()
            for source in sources:
                assert (ROOT / source).exists(), source


def test_the_service_image_stands_on_pytorch_with_cuda_and_tells_how_it_is_run():
    assert re.match(r"pytorch/pytorch:\d+\.\d+\.\d+-cuda", dockerfile("service.Dockerfile").baseimage)
    assert "docker run --gpus all" in (DEPLOY / "service.Dockerfile").read_text()


def test_the_compose_file_publishes_on_loopback_only_and_reaches_the_collector_by_name():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        assert (ROOT / service["build"]["dockerfile"]).exists(), name
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), port
    host, port = services["reco"]["environment"]["MIDWATCH_COLLECTOR"].split(":")
    assert host in services
    assert port == "7171"


def test_the_unit_starts_the_collector_on_loopback_with_a_private_state_directory():
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "midwatch-collector.service")
    service = unit["Service"]
    assert "midwatch collector" in service["ExecStart"]
    assert "--grpc 127.0.0.1:7171" in service["ExecStart"]
    assert service["StateDirectory"] == "midwatch"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_example_service_compiles():
    compile((DEPLOY / "serve.py").read_text(), "serve.py", "exec")
