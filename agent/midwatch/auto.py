"""``import midwatch.auto``: the whole integration, with settings from the environment and ``midwatch.toml``."""

from midwatch.api import start

start()
