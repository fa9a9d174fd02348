import pytest
from midwatch.config import Loaded, Settings, load, state_dir


def loaded(environ=None, tmp_path=None, **arguments) -> Loaded:
    return load(arguments, environ or {}, tmp_path or "/nonexistent")


def test_arguments_go_before_variables_before_the_file_before_the_defaults(tmp_path):
    (tmp_path / "midwatch.toml").write_text('slo_ms = 10\nroutine = 3\nredact = true\ncollector = "file:1"\n')
    environ = {"MIDWATCH_SLO_MS": "20", "MIDWATCH_ROUTINE": "4"}
    settings = loaded(environ, tmp_path, slo_ms=30).settings
    assert (settings.slo_ms, settings.routine, settings.redact, settings.warmup_requests) == (30.0, 4.0, True, 20)
    assert settings.collector == "file:1"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("MIDWATCH_SLO_MS", "fast", "MIDWATCH_SLO_MS must be a number from 0 to 3600000, not 'fast'; it was ignored."),
        ("MIDWATCH_SLO_MS", "-1", "MIDWATCH_SLO_MS must be a number from 0 to 3600000, not '-1'; it was ignored."),
        ("MIDWATCH_SLO_MS", "nan", "MIDWATCH_SLO_MS must be a number from 0 to 3600000, not 'nan'; it was ignored."),
        (
            "MIDWATCH_WARMUP_REQUESTS",
            "1.5",
            "MIDWATCH_WARMUP_REQUESTS must be a whole number from 0 to 1000000, not '1.5'; it was ignored.",
        ),
        (
            "MIDWATCH_ENGINE",
            "nonsense",
            "MIDWATCH_ENGINE must be one of auto, direct, capped, off, not 'nonsense'; it was ignored.",
        ),
        ("MIDWATCH_ENABLED", "perhaps", "MIDWATCH_ENABLED must be 1 or 0, not 'perhaps'; it was ignored."),
    ],
)
def test_a_value_that_cannot_be_used_is_named_and_the_default_is_used(variable, value, sentence):
    result = loaded({variable: value})
    assert result.problems == (sentence,)
    default = loaded({}).settings
    assert result.settings == default


def test_a_bad_argument_falls_through_to_the_environment():
    result = loaded({"MIDWATCH_ENGINE": "capped"}, engine="nonsense")
    assert result.settings.engine == "capped"
    assert "start(engine=…)" in result.problems[0]


def test_unknown_settings_are_named(tmp_path):
    (tmp_path / "midwatch.toml").write_text("slo = 10\n")
    problems = loaded({}, tmp_path, colour="red").problems
    assert problems == (
        "start() has no setting 'colour'; it was ignored.",
        "midwatch.toml has a setting 'slo' that Midwatch does not know.",
    )


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "midwatch.toml").write_text("slo_ms = \n")
    (problem,) = loaded({}, tmp_path).problems
    assert problem.startswith("midwatch.toml was ignored, since it is not valid TOML")


def test_a_named_file_that_is_not_there_is_named(tmp_path):
    (problem,) = loaded({"MIDWATCH_CONFIG": str(tmp_path / "no.toml")}).problems
    assert "cannot be read" in problem


@pytest.mark.parametrize("off", ["0", "false", "No", "OFF"])
def test_ways_to_say_no(off):
    assert loaded({"MIDWATCH_ENABLED": off}).settings.enabled is False


def test_lists_of_names():
    assert loaded({"MIDWATCH_INTEGRATIONS_OFF": "starlette, other,"}).settings.integrations_off == (
        "starlette",
        "other",
    )
    assert loaded({}, integrations_off=["a"]).settings.integrations_off == ("a",)
    assert loaded({}, integrations_off=3).problems


def test_the_service_is_named_by_opentelemetry_where_nothing_else_names_it(monkeypatch):
    attributes = "service.name=from-attributes,service.version=1.2,deployment.environment.name=prod"
    settings = loaded({"OTEL_SERVICE_NAME": "ranker", "OTEL_RESOURCE_ATTRIBUTES": attributes}).settings
    assert (settings.service, settings.service_version, settings.environment) == ("ranker", "1.2", "prod")
    assert loaded({"OTEL_RESOURCE_ATTRIBUTES": attributes}).settings.service == "from-attributes"
    assert loaded({"OTEL_SERVICE_NAME": "ranker"}, service="mine").settings.service == "mine"
    monkeypatch.setattr("sys.argv", ["/srv/app/serve.py"])
    assert loaded({}).settings.service == "serve"
    monkeypatch.setattr("sys.argv", ["-c"])
    assert loaded({}).settings.service == "python"


def test_the_token_is_not_shown():
    assert "secret" not in repr(Settings(token="secret"))


def test_a_token_that_cannot_be_used_is_not_told_either():
    for problem in loaded({}, token=b"secret").problems:
        assert "secret" not in problem
        assert problem == "start(token=…) must be a text; it was ignored."


def test_state_lives_where_the_desktop_standard_says():
    settings = Settings()
    assert str(state_dir(settings, {"XDG_STATE_HOME": "/state"})) == "/state/midwatch"
    assert str(state_dir(settings, {"HOME": "/home/me"})) == "/home/me/.local/state/midwatch"
    assert str(state_dir(Settings(state_dir="/var/lib/midwatch"), {})) == "/var/lib/midwatch"
