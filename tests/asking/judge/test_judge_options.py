"""The options of ``judge``."""

import pytest

from setup.ballast_options import parser

RUN = ("--run-id", "r", "--cluster", "c")


def test_a_plan_may_have_many_files() -> None:
    """One tool writes a file for each topic."""
    options = parser().parse_args(["judge", *RUN, "--plan", "a.json", "b.json", "--stale-ok"])
    assert vars(options) == {
        **{"command": "judge", "config": None, "warehouse": None, "run_id": "r", "cluster": "c"},
        **{"plan": ["a.json", "b.json"], "stale_ok": True, "json": False, "html": None},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["judge"], "the following arguments are required: --cluster, --plan"),
        (["judge", *RUN, "--plan"], "argument --plan: expected at least one argument"),
        (["judge", *RUN, "--plan", "a", "--plan", "b"], "--plan is given twice, a and b: give it once"),
        (["judge", *RUN, "--plans", "a"], "there is no option --plans (did you mean '--plan'?)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """They end with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err
