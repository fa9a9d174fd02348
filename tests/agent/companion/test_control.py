import grpc
import pytest
from midwatch.companion.connection import Connection
from midwatch.companion.control import Control, update_of
from midwatch.companion.retry import Retry
from midwatch.model.capture import Capture
from midwatch.model.resource import Resource
from midwatch.model.status import AgentStatus
from midwatch.wire import to_message
from midwatch_proto.v1 import capture_pb2, control_pb2


class AtOnce(Retry):
    """No pause between two tries."""

    def delay_s(self):
        return 0.0


class Soon(Retry):
    """Hardly a pause."""

    def delay_s(self):
        return 0.01


@pytest.fixture
def orders():
    return []


@pytest.fixture
def news():
    return []


@pytest.fixture
def control(collector, orders, news):
    connection = Connection(collector.address)
    status = to_message(AgentStatus(unix_ns=5, requests=7))
    made = Control(
        connection,
        hello=lambda: control_pb2.AgentHello(resource=to_message(Resource("me", "reco")), status=status),
        heartbeat=lambda: control_pb2.Heartbeat(status=status),
        on_order=orders.append,
        report=news.append,
        retry=AtOnce(),
    )
    made.start()
    yield made
    made.stop()
    connection.close()


def order(command_id, capture_id="", **fields):
    return control_pb2.Order(
        command_id=command_id, order=capture_pb2.CaptureOrder(capture_id=capture_id, reason="demand", **fields)
    )


def updates(collector):
    return [one.command_update for one in collector.said if one.WhichOneof("message") == "command_update"]


def test_it_says_who_it_is_and_passes_orders_on(control, collector, orders, news, wait_until):
    wait_until(lambda: news)
    assert collector.said[0].hello.resource.service == "reco"
    assert collector.said[0].hello.status.requests == 7
    collector.orders.put(order("c1", "w1", requests=20, seconds=1.5, deep=True))
    wait_until(lambda: orders)
    assert (orders[0].command_id, orders[0].capture_id, orders[0].requests) == ("c1", "w1", 20)
    assert (orders[0].seconds, orders[0].deep, orders[0].reason) == (1.5, True, "demand")


def test_an_order_that_comes_twice_is_passed_on_once_and_gets_an_id(control, collector, orders, wait_until):
    for command_id in ("c1", "c1", "c2"):
        collector.orders.put(order(command_id))
    wait_until(lambda: len(orders) == 2)
    assert [one.command_id for one in orders] == ["c1", "c2"]
    assert len({one.capture_id for one in orders}) == 2
    assert all(one.capture_id for one in orders)


def test_an_id_that_is_no_plain_name_never_reaches_the_service(control, collector, orders, wait_until):
    collector.orders.put(order("c1", "../../etc/passwd"))
    collector.orders.put(order("c2", "fine-1_A"))
    wait_until(lambda: orders)
    assert [one.command_id for one in orders] == ["c2"]
    (update,) = wait_until(lambda: updates(collector))
    assert (update.command_id, update.state) == ("c1", control_pb2.COMMAND_STATE_REFUSED)


def test_a_stream_that_breaks_is_opened_again_and_young_updates_are_said_again(control, collector, news, wait_until):
    done = ("c1", control_pb2.COMMAND_STATE_DONE, "")
    refused = ("c2", control_pb2.COMMAND_STATE_REFUSED, "not now")

    def said():
        return [(one.command_id, one.state, one.detail) for one in updates(collector)]

    wait_until(lambda: collector.attached)
    control.update(update_of(Capture("w1", "demand", "done", command_id="c1")))
    wait_until(lambda: said() == [done])
    attached = collector.attached
    collector.drop_streams()
    wait_until(lambda: collector.attached > attached)
    wait_until(lambda: said()[1:2] == [done])
    control.update(update_of(Capture("w2", "demand", "refused", command_id="c2", detail="not now")))
    wait_until(lambda: refused in said())
    # A busy machine may lose a stream once more, and then both are said again.
    assert set(said()) == {done, refused}
    wait_until(control.drained)
    assert any(news)


def test_a_new_hello_takes_a_new_stream_and_is_no_trouble(control, collector, news, wait_until):
    wait_until(lambda: news)
    control.renew()
    wait_until(lambda: collector.attached == 2 and len(news) == 2)
    assert news == ["", ""]
    assert sum(one.WhichOneof("message") == "hello" for one in collector.said) == 2


def test_a_lost_collector_is_knocked_for_and_found_again(run_collector, orders, news, wait_until, monkeypatch):
    connection = Connection(run_collector.address)
    tries = []
    monkeypatch.setattr(
        connection, "attach", lambda messages: tries.append(1) or Connection.attach(connection, messages)
    )
    hello = control_pb2.AgentHello(resource=to_message(Resource("me", "reco")))
    beat = control_pb2.Heartbeat()
    made = Control(
        connection,
        hello=lambda: hello,
        heartbeat=lambda: beat,
        on_order=orders.append,
        report=news.append,
        retry=Soon(),
    )
    made.start()
    try:
        wait_until(lambda: connection.misses > 3)
        assert connection.lost
        assert len(tries) == 1, "a knock takes the place of a call"
        assert set(news) == {f"no collector at {run_collector.address}: connection refused"}
        run_collector()
        wait_until(lambda: news[-1] == "")
        assert not connection.lost
    finally:
        made.stop()
        connection.close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "no collector at 127.0.0.1:1: connection refused"),
        ("[::1]:1", "no collector at [::1]:1: "),
        ("nowhere.invalid:7171", "no collector at nowhere.invalid:7171: its name is not known"),
        ("x" * 300 + ":7171", "no collector at xxx"),
        ("127.0.0.1:99999", "no collector at 127.0.0.1:99999: "),
        ("unix:/tmp/nobody.sock", ""),
        ("dns:///nowhere.invalid:7171", ""),
        ("nowhere", ""),
        ("dns:localhost:1", ""),
        ("ipv4:127.0.0.1:1", ""),
        ("ipv6:[::1]:1", ""),
        ("unix:7171", ""),
        ("unix-abstract:7171", ""),
        ("unixbox.invalid:7171", "no collector at unixbox.invalid:7171: its name is not known"),
        ("localhost:\u00b2", ""),
    ],
)
def test_a_knock_says_in_words_why_nobody_is_there(address, says):
    connection = Connection(address)
    said = connection.knock()
    assert said.startswith(says)
    assert bool(said) == bool(says)
    assert connection.misses == connection.lost == bool(says)


@pytest.mark.parametrize("scheme", ["dns:localhost", "ipv4:127.0.0.1"])
def test_an_address_that_grpc_alone_understands_is_found_after_a_loss(
    run_collector, free_port, orders, news, wait_until, scheme
):
    connection = Connection(f"{scheme}:{free_port}")
    hello = control_pb2.AgentHello(resource=to_message(Resource("me", "reco")))
    made = Control(
        connection,
        hello=lambda: hello,
        heartbeat=control_pb2.Heartbeat,
        on_order=orders.append,
        report=news.append,
        retry=Soon(),
    )
    made.start()
    try:
        wait_until(lambda: len(news) > 1)
        assert set(news) == {f"no collector at {connection.address}: connection refused"}
        run_collector()
        wait_until(lambda: news[-1] == "")
    finally:
        made.stop()
        connection.close()


def test_where_nobody_answers_the_next_stream_gets_a_channel_of_its_own(collector, free_port):
    connection = Connection(collector.address)
    first = connection._open()
    assert connection.knock() == ""
    assert connection._open() is first
    connection.address = f"127.0.0.1:{free_port}"
    assert connection.knock()
    assert connection._open() is not first
    connection.close()


def test_it_gives_signs_of_life(monkeypatch, collector, wait_until, request):
    monkeypatch.setattr("midwatch.companion.control._HEARTBEAT_S", 0.01)
    request.getfixturevalue("control")
    beats = wait_until(lambda: [one for one in collector.said if one.WhichOneof("message") == "heartbeat"])
    assert beats[0].heartbeat.status.unix_ns == 5


def test_news_are_told_at_once(control, collector, news, wait_until):
    wait_until(lambda: news)
    control.beat()
    wait_until(lambda: [one for one in collector.said if one.WhichOneof("message") == "heartbeat"], 5)


def test_a_name_that_is_not_known_is_said_in_words():
    class Broken:
        def code(self):
            return grpc.StatusCode.UNAVAILABLE

        def details(self):
            return "errors resolving nowhere.invalid:1: [field:hostname lookup error:address lookup failed for it:;]"

    connection = Connection("nowhere.invalid:1")
    assert connection.explain(Broken()) == "no collector at nowhere.invalid:1: its name is not known"
    connection.close()


@pytest.mark.parametrize(("state", "told"), [("done", 2), ("refused", 3), ("failed", 4), ("empty", 4)])
def test_a_capture_tells_its_command_how_it_went(state, told):
    update = update_of(Capture("w", "demand", state, detail="why", command_id="c"))
    assert (update.state, update.detail, update.capture_id) == (told, "why", "w")
