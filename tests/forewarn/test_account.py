"""The account announces only what was said before a failure and because of its risk."""

from forewarn.account import HOUR_NS, Recommended, TrueFailure, settle

NOW = 1_000_000 * HOUR_NS


def failure(node: str, at_h: float, *, is_visible: bool = True) -> TrueFailure:
    at_ns = NOW + int(at_h * HOUR_NS)
    return TrueFailure(node=node, unit=node, mode="thermal", is_visible=is_visible, onset_ns=at_ns - 5 * HOUR_NS, failed_ns=at_ns)


def drain(node: str, at_h: float, origin: str = "score") -> Recommended:
    at_ns = NOW + int(at_h * HOUR_NS)
    return Recommended(
        recommendation_id=f"{node}{at_h}",
        node=node,
        opened_ns=at_ns,
        drain_ns=at_ns,
        resolved_ns=None,
        strongest="drain_now",
        origin=origin,
        budget="approved",
        p_fail=0.4,
    )


def test_account_of_a_small_run() -> None:
    """One failure announced 4 h before, one answered only, one under an earlier drain, one alarm false and one not yet over."""
    failures = [failure("a", 10), failure("b", 10, is_visible=False), failure("c", 10)]
    said = [drain("a", 6), drain("b", 11, "failure"), drain("c", 1, "failure"), drain("d", 2), drain("e", 39)]
    account = settle(failures, said, ended_ns=NOW + 40 * HOUR_NS, horizon_h=24, drained_node_h=2, lost_per_failure_h=24)
    assert [(v.failure.node, v.lead_h, v.why_not) for v in account.verdicts] == [
        ("a", 4.0, None),
        ("b", None, "it had no precursor"),
        ("c", None, "its node was still to be drained for an earlier failure"),
    ]
    assert [r.node for r in account.false_alarms] == ["d"]
    assert [r.node for r in account.unresolved] == ["e"]
    assert (account.drained_h, account.lost_h, account.avoidable_h) == (6, 72, 24)
