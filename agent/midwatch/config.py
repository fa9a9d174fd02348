"""Settings: from arguments, then ``MIDWATCH_*`` variables, then ``midwatch.toml``, then the defaults.

A bad value never stops the service: the agent uses the default, and its status says what was wrong in one sentence.
"""

from __future__ import annotations

import os
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _setting(
    default: Any, text: str, *, choices: tuple[str, ...] = (), low: float = 0.0, high: float = 0.0, secret: bool = False
) -> Any:
    return field(
        default=default,
        repr=not secret,
        metadata={"help": text, "choices": choices, "low": low, "high": high, "secret": secret},
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the agent. Each is ``MIDWATCH_`` + its name in capitals in the environment."""

    enabled: bool = _setting(True, "0 makes every call of Midwatch do nothing.")
    service: str = _setting("", "Name of the service; else OTEL_SERVICE_NAME, else the name of the main script.")
    service_version: str = _setting("", "Version of the service; else service.version of OTEL_RESOURCE_ATTRIBUTES.")
    environment: str = _setting("", "Such as production; else deployment.environment of OTEL_RESOURCE_ATTRIBUTES.")
    collector: str = _setting("127.0.0.1:7171", "host:port of the collector's gRPC address; empty sends nothing.")
    token: str = _setting("", "Token that the collector asks for.", secret=True)
    engine: str = _setting(
        "auto", "How windows are recorded; off never opens one.", choices=("auto", "direct", "capped", "off")
    )
    slo_ms: float = _setting(
        0.0, "Deadline of routes with too few requests for one of their own; 0 derives it.", high=3_600_000.0
    )
    routine: float = _setting(
        2.0, "Routine looks an hour, after the first one at the end of warm-up; 0 off.", high=60.0
    )
    windows_per_hour: int = _setting(60, "Most windows of any kind in an hour.", high=3600)
    warmup_requests: int = _setting(20, "First requests of each route that are kept apart.", high=1_000_000)
    units: bool = _setting(True, "Find root modules and follow their calls.")
    redact: bool = _setting(False, "Hide notes, trace ids and the names of threads.")
    raw_traces: str = _setting(
        "auto",
        "Whether raw traces leave the host; auto: to a loopback collector only.",
        choices=("auto", "never", "always"),
    )
    spool_bytes: int = _setting(256 * 1024 * 1024, "Most disk space for what waits to be sent.", high=1 << 50)
    trace_memory_bytes: int = _setting(
        1 << 30,
        "Most memory for reading one window; what does not fit is cut off in time, and the summary says so.",
        low=1 << 27,
        high=1 << 50,
    )
    state_dir: str = _setting(
        "", "Spool and crash latch; default $XDG_STATE_HOME/midwatch, else ~/.local/state/midwatch."
    )
    trace_dir: str = _setting("", "Where traces are written at first; default /dev/shm, else the temporary folder.")
    integrations_off: tuple[str, ...] = _setting((), "Integrations that stay off, by name, with commas between them.")
    gpu_hz: float = _setting(5.0, "NVML readings a second.", low=0.1, high=10.0)
    watch_tick_ms: float = _setting(2.0, "How often an overdue request is sampled.", low=1.0, high=100.0)
    window_hz: float = _setting(1000.0, "Stack samples a second during a window.", low=10.0, high=2000.0)
    log_level: str = _setting("warning", "Level of the logger midwatch.", choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and one sentence for each value that could not be used."""

    settings: Settings
    problems: tuple[str, ...] = ()


def load(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Loaded:
    """Return the settings of this process.

    Args:
        arguments: what `midwatch.start` was given; `None` values count as not given.
        environ: the environment, by default that of the process.
        directory: where ``midwatch.toml`` is looked for unless ``MIDWATCH_CONFIG`` names a file; the current one.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    table = _read_toml(environ, directory, problems)
    known = {f.name for f in fields(Settings)}
    problems += [f"start() has no setting {name!r}; it was ignored." for name in sorted(given.keys() - known)]
    problems += [
        f"midwatch.toml has a setting {name!r} that Midwatch does not know." for name in sorted(table.keys() - known)
    ]
    hints = typing.get_type_hints(Settings)
    values: dict[str, Any] = {}
    for f in fields(Settings):
        variable = f"MIDWATCH_{f.name.upper()}"
        for source, holder, key in (
            (f"start({f.name}=…)", given, f.name),
            (variable, environ, variable),
            (f"{f.name} in midwatch.toml", table, f.name),
        ):
            if key not in holder:
                continue
            try:
                values[f.name] = _parse(hints[f.name], holder[key], f.metadata)
                break
            except _UnusableError as error:
                problems.append(f"{source} must be {error}; it was ignored.")
    _fall_back(values, environ)
    return Loaded(Settings(**values), tuple(problems))


def state_dir(settings: Settings, environ: Mapping[str, str] | None = None) -> Path:
    """Return where spool and crash latch live. The folder may not exist yet."""
    from pathlib import Path  # not before it is needed: a service waits for what is imported here

    environ = os.environ if environ is None else environ
    if settings.state_dir:
        return Path(settings.state_dir)
    base = environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path(environ.get("HOME") or "/tmp") / ".local" / "state") / "midwatch"  # noqa: S108


class _UnusableError(ValueError):
    """A value that cannot be used; the text says what it should have been."""


def _parse(kind: Any, value: Any, limits: Mapping[str, Any]) -> Any:
    """Return ``value`` as ``kind``; raise `_UnusableError` with what it should have been."""
    if kind is bool:
        return _parse_bool(value)
    if kind in (int, float):
        return _parse_number(kind, value, limits["low"], limits["high"])
    if typing.get_origin(kind) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            raise _UnusableError(f"a list of names, not {value!r}")
        return tuple(item.strip() for item in items if item.strip())
    if not isinstance(value, str):
        # What is said here is logged, and sent with the status.
        raise _UnusableError("a text" if limits["secret"] else f"a text, not {value!r}")
    text = value.strip()
    choices = limits["choices"]
    if choices and text.lower() not in choices:
        raise _UnusableError(f"one of {', '.join(choices)}, not {text!r}")
    return text.lower() if choices else text


def _parse_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _UnusableError(f"1 or 0, not {value!r}")


def _parse_number(kind: type[int | float], value: Any, low: float, high: float) -> float:
    wanted = f"a {'whole ' if kind is int else ''}number from {low:.15g} to {high:.15g}"
    if isinstance(value, bool):
        raise _UnusableError(f"{wanted}, not {value!r}")
    try:
        number = kind(value)
    except (TypeError, ValueError):
        raise _UnusableError(f"{wanted}, not {value!r}") from None
    if not low <= number <= high:
        raise _UnusableError(f"{wanted}, not {value!r}")
    return number


def _fall_back(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    attributes = dict(
        pair.split("=", 1) for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if "=" in pair
    )
    name = values.get("service") or environ.get("OTEL_SERVICE_NAME", "").strip() or attributes.get("service.name", "")
    values["service"] = name or _script_name()
    values["service_version"] = values.get("service_version") or attributes.get("service.version", "")
    values["environment"] = (
        values.get("environment")
        or attributes.get("deployment.environment.name", "")
        or attributes.get("deployment.environment", "")
    )


def _script_name() -> str:
    script = sys.argv[0] if sys.argv and sys.argv[0] not in {"-c", "-m"} else ""
    stem = os.path.splitext(os.path.basename(script))[0]  # noqa: PTH119, PTH122 - without pathlib, see `state_dir`
    if stem == "__main__":
        stem = os.path.basename(os.path.dirname(os.path.realpath(script)))  # noqa: PTH119, PTH120
    return stem or "python"


def _read_toml(
    environ: Mapping[str, str], directory: str | os.PathLike[str] | None, problems: list[str]
) -> dict[str, Any]:
    named = environ.get("MIDWATCH_CONFIG", "")
    path = named or os.path.join(directory or ".", "midwatch.toml")  # noqa: PTH118
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        if named:
            problems.append(f"MIDWATCH_CONFIG names {named!r}, which cannot be read ({error.strerror}).")
        return {}
    toml = _toml_module()
    if toml is None:
        problems.append("midwatch.toml was ignored: Python 3.10 needs the package tomli to read it.")
        return {}
    try:
        return dict(toml.loads(data.decode()))
    except ValueError as error:
        problems.append(f"{os.path.basename(path)} was ignored, since it is not valid TOML: {error}.")  # noqa: PTH119
        return {}


def _toml_module() -> types.ModuleType | None:
    import importlib

    try:
        return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ImportError:
        return None
