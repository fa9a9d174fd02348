"""What is told of windows that were refused, or closed before they held what they were to hold."""

from midwatch.model.capture import CaptureOrder
from midwatch.model.status import Part


def order(**rest):
    return CaptureOrder("c1", "demand", **rest)


def windows(agent):
    """The line of the status that is about windows."""
    return agent.controller.status()[-1]


def test_a_refusal_is_told_until_a_window_goes_well_and_then_counted_anew(agent, serve_order):
    for _ in range(2):
        agent.engine.refuses = "a profiler session of the service is open"
        serve_order(order())
        assert windows(agent).detail == "1 refused, the last one since a profiler session of the service is open"
        agent.engine.refuses = ""
        serve_order(order())
        assert windows(agent) == Part("windows", "on")
    assert agent.controller.counts["refused"] == 2


def test_a_window_that_closes_before_it_holds_its_requests_says_so(agent, serve_order):
    capture = serve_order(order(requests=20, seconds=0.3), lambda: [agent.serve(0.05) for _ in range(3)])
    (caveat,) = capture.caveats
    assert (caveat.code, caveat.count) == ("requests_missing", 17)
    assert caveat.text == (
        "The window was to hold 20 whole requests; 3 had ended when it closed at its time limit of 0.3 s."
    )
    (caveat,) = serve_order(order(requests=1, seconds=0.3)).caveats
    assert "hold 1 whole request; none had ended" in caveat.text
    assert serve_order(order(requests=3, seconds=0.3), lambda: [agent.serve(0.05) for _ in range(3)]).caveats == ()
    assert serve_order(order(seconds=0.3)).caveats == ()
    (caveat,) = serve_order(order(seconds=30.0)).caveats
    assert caveat.code == "window_shortened"
    assert caveat.text.startswith("The window was to last 30 s; it closed at its time limit of ")


def test_nothing_is_looked_into_between_the_edge_and_the_close(agent, serve_order, monkeypatch):
    """What stands there moves the close away from the moment between two requests that was waited for."""
    happened = []
    for name, part, call in (("edge", agent.controller, "_edge"), ("close", agent.engine, "close"),
                             ("digest", agent.intake, "digest")):  # fmt: skip
        real = getattr(part, call)
        monkeypatch.setattr(part, call, lambda *given, real=real, name=name: (happened.append(name), real(*given))[1])
    serve_order(order(requests=2, seconds=0.3), lambda: [agent.serve(0.05) for _ in range(2)])
    close = happened.index("close")
    assert happened[close - 1] == "edge"
    assert "digest" in happened[:close]
    assert "digest" in happened[close:]
