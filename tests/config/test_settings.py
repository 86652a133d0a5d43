"""Configuration: options override files, files override defaults; invalid values are refused with a remedy."""

import json
import re
import subprocess
import sys
from datetime import date, time
from pathlib import Path
from typing import Any

import pytest
from kafka.cluster import collect_hosts

from optimizer.cli import checked, replaced_lists, run_id_of, settings_of, unknown_releases
from optimizer.cluster_policy import NO_LIMIT, MoveLimit
from optimizer.configuration import build, merge, read_toml
from optimizer.declared import DECLARED, NAMES, can_read
from optimizer.errors import ConfigError
from optimizer.job_options import parser
from optimizer.setting_checks import server_address, server_addresses
from optimizer.settings import Settings
from optimizer.topic_policy import Pin, TopicFactor
from optimizer.windows_setting import Window
from setup.paths import HOME

DEFAULTS = read_toml(HOME / "conf" / "default.toml")


def settings_from(*words: str) -> Settings:
    """Settings of a command line."""
    return settings_of(parser("test").parse_args(list(words)))


def test_default_file_says_what_the_code_defaults_to() -> None:
    """Every knob is in conf/default.toml, with the default of the code."""
    assert build(DEFAULTS) == Settings()
    known = build({})
    for section in DEFAULTS:
        assert set(DEFAULTS[section]) == set(getattr(known, section).__dataclass_fields__)


def with_instances(*tables: dict[str, Any]) -> dict[str, Any]:
    """A configuration with instances of cluster c."""
    return {"clusters": [{"id": "c", "input": "x", "instances": [*tables]}]}


def with_window(*, first_night: object = "", **knobs: object) -> dict[str, Any]:
    """A schedule with one window, some of its knobs replaced."""
    whole = {"days": ["fri", "sun"], "start": "22:00", "end": "06:00", "time_zone": "Europe/Dublin"}
    return {"schedule": {"windows": [{**whole, **knobs}], "first_night": first_night}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"solver": {"ronds": 3}}, r"\[solver\]: unknown 'ronds' \(did you mean 'rounds'\?\); known are"),
        ({"policy": {"rounds": 3, "x": 1}}, r"\[policy\]: unknown 'rounds' \(it is in \[solver\]\), 'x'; known are"),
        ({"solvers": {}}, r"unknown section 'solvers' \(did you mean 'solver'\?\); known are"),
        ({"solver": {"rounds": 0}}, r"\[solver\] rounds = 0 is not usable: give a number from 1 to 20"),
        ({"solver": {"rounds": 2.5}}, r"\[solver\] rounds = 2.5: expected a whole number, such as 4$"),
        ({"solver": {"rounds": True}}, r"\[solver\] rounds = True: expected a whole number, such as 4$"),
        ({"policy": {"disk_band": -1}}, r"\[policy\] disk_band = -1.0 is not usable"),
        ({"policy": {"disk_band": "5%"}}, r"\[policy\] disk_band = '5%': expected a number, such as 0.05$"),
        ({"policy": {"move_price": "1"}}, r"move_price = '1': expected a number, such as 0.05$"),
        ({"policy": {"drain_brokers": "17"}}, r"drain_brokers = '17': expected a list of numbers, such as \[17\]$"),
        ({"policy": {"drain_brokers": ["17"]}}, r"drain_brokers = \['17'\]: expected a list of numbers"),
        ({"policy": {"exclude_topics": "a"}}, r'exclude_topics = .a.: expected a list of texts in quotes, such as \["'),
        ({"policy": {"rack_policy": 3}}, 'rack_policy = 3: expected text in quotes, such as "spread"$'),
        ({"emit": {"plan_log_dirs": "true"}}, "plan_log_dirs = 'true': expected true or false, without quotes$"),
        ({"policy": {"max_moved_gb": -1}}, r"\[policy\] max_moved_gb = -1.0 is not usable: give a number from 0 to"),
        ({"policy": {"max_moves": 2.5}}, r"\[policy\] max_moves = 2.5: expected a whole number, such as 17$"),
        ({"clusters": [{"id": "a", "input": "x", "max_moves": -3}]}, r"\[clusters\] max_moves = -3 is not usable"),
        ({"policy": {"rack_policy": "even"}}, "use spread or none"),
        ({"policy": {"max_unexplained": 1.5}}, "max_unexplained = 1.5"),
        ({"policy": {"max_unexplained": -0.1}}, "max_unexplained = -0.1"),
        (
            {"policy": {"cross_rack_price_per_gb": -0.1}},
            "cross_rack_price_per_gb = -0.1 is not usable",
        ),
        ({"policy": {"failover_spread": "all"}}, "failover_spread = 'all' is not usable"),
        ({"policy": {"cross_rack_price_per_gb": 2e6}}, "cross_rack_price_per_gb = 2000000.0 is not usable"),
        (
            {"policy": {"only": "rack"}},
            r"\[policy\] only = 'rack' is not usable: use one of racks, drain, leaders, demote",
        ),
        ({"clusters": [{"id": "a", "input": "x", "only": "all"}]}, r"\[\[clusters\]\] only = 'all' is not usable"),
        (
            {
                "clusters": [
                    {"id": "a", "input": "x", "only": "demote"},
                    {"id": "b", "input": "y", "only": "demote", "demote_brokers": [3]},
                ]
            },
            r"only = 'demote' is not usable: clusters \['a'\] have no brokers to demote: name some by --demote or",
        ),
        (
            {"clusters": [{"id": "a", "input": "x"}], "policy": {"only": "racks", "rack_policy": "none"}},
            "remove one of the two",
        ),
        ({"policy": {"topics": ["("]}}, r"topics: '\(' is not a regular expression"),
        ({"policy": {"exclude_topics": ["("]}}, r"'\(' is not a regular expression"),
        ({"policy": {"pins": "a"}}, r"\[policy\] pins = 'a': expected tables like"),
        ({"policy": {"pins": [7]}}, r"\[policy\] pins = \[7\]: expected tables like"),
        (
            {"policy": {"pins": [{"topics": "a", "broker": [1]}]}},
            r"\[policy\] pins: unknown 'broker' \(did you mean 'brokers'\?\); known",
        ),
        (
            {"policy": {"pins": [{"topics": "a", "brokers": []}]}},
            r"pins: the pin of topics = 'a' names neither a broker nor a rack: give brokers = \[17\] or racks",
        ),
        (
            {"policy": {"pins": [{"topics": "a", "brokers": [1], "racks": ["r"]}]}},
            "names both brokers and racks: give .*, one of them",
        ),
        (
            {"policy": {"pins": [{"topics": "a", "brokers": ["1"]}]}},
            r"\[policy\] pins brokers = \['1'\]: expected a list of numbers, such as \[17\]",
        ),
        (
            {"policy": {"pins": [{"topics": "a", "racks": [1]}]}},
            r"pins racks = \[1\]: expected a list of texts in quotes",
        ),
        ({"policy": {"pins": [{"topics": "(", "racks": ["r"]}]}}, r"pins topics: '\(' is not a regular expression"),
        ({"policy": {"pins": [{"racks": ["r"]}]}}, "give a regular expression for the topics' whole names"),
        (
            {"clusters": [{"id": "c", "input": "x"}], "policy": {"pins": [{"topics": "a", "racks": ["r"]}] * 2}},
            r"cluster c: pins = \['a'\] is not usable: name each pattern once",
        ),
        (
            {
                "clusters": [{"id": "c", "input": "x"}, {"id": "d", "input": "y"}],
                "policy": {"pins": [{"topics": "a", "brokers": [1]}]},
            },
            r"\[\[policy.pins\]\] = \['a'\] is not usable: the same id is a different broker in each of \['c', 'd'\]",
        ),
        (
            {"policy": {"replication_factors": 3}},
            r"replication_factors = 3: expected tables like {topics = .*factor = 3}",
        ),
        (
            with_instances({"instance": "x"}),
            r"instances = {'instance': 'x', 'broker': -1} is not usable: give the label",
        ),
        (with_instances({"broker": 1}), r"instances = {'instance': '', 'broker': 1} is not usable: give the label"),
        (with_instances({"instance": "x", "broker": "1"}), r"instances broker = '1': expected a whole number"),
        (
            with_instances({"instance": "x", "broker": 1}, {"instance": "x", "broker": 2}),
            r"'c' instances = \['x'\] is not usable: name each instance once",
        ),
        ({"policy": {"replication_factors": [{"factor": 3}]}}, "regular expression for the topics' whole names"),
        ({"policy": {"replication_factors": [{"topics": "(", "factor": 3}]}}, r"'\(' is not a regular expression"),
        ({"policy": {"replication_factors": [{"topics": "a"}]}}, r"'a': factor = 0 is not usable: give a number"),
        ({"policy": {"replication_factors": [{"topics": "a", "factor": 32768}]}}, "from 1 to 32767"),
        (
            {"policy": {"replication_factors": [{"topics": "a", "factor": 2.5}]}},
            "factor = 2.5: expected a whole number",
        ),
        ({"policy": {"replication_factors": [{"topics": "a", "rf": 2}]}}, r"unknown 'rf'; known are"),
        (
            {
                "clusters": [{"id": "c", "input": "x", "replication_factors": [{"topics": "a", "factor": 2}]}],
                "policy": {"replication_factors": [{"topics": "a", "factor": 3}]},
            },
            r"cluster c: replication_factors = \['a'\] is not usable: name each pattern once, with one factor",
        ),
        ({"schedule": {"windows": "fri"}}, r"\[schedule\] windows = 'fri': expected tables like {days = \["),
        ({"schedule": {"windows": [{}]}}, r"\[schedule\] windows: start is missing\n- .*end is missing\n- .*time_zone"),
        (with_window(day="fri"), r"\[schedule\] windows: unknown 'day' \(did you mean 'days'\?\); known are"),
        (with_window(days="fri"), r"\[schedule\] windows days = 'fri': expected a list of texts in .* \[\"fri\"\]$"),
        (with_window(days=[]), r"\[\[schedule.windows\]\] days = \[\] is not usable: name at least one day on which"),
        (with_window(days=["fri", "fri"]), r"days = \['fri', 'fri'\] is not usable: name at least one .*, each once"),
        (with_window(days=["fri", "Sat"]), r"days = \['Sat'\] is not usable: use mon, tue, wed, thu, fri, sat, sun$"),
        *(
            (
                with_window(**{name: text}),
                rf"\[\[schedule.windows\]\] {name} = .* is not usable: give a time from 00:00",
            )
            for name in ("start", "end")
            for text in ("", "24:00", "6:00", "06:60", "22:00:00", "22.00", "22:00\n", "२२:११")
        ),
        (with_window(start=time(22)), r"windows start = datetime.time.*: expected text in quotes, such as \"22:00\"$"),
        *(
            (with_window(time_zone=name), r"\[\[schedule.windows\]\] time_zone = .* no time zone has this name.*: give")
            for name in (
                "",
                "IST",
                "Europe",
                "europe/dublin",
                "/etc/localtime",
                "../UTC",
                "localtime",
                "Factory",
                "a\0",
            )
        ),
        (with_window(time_zone="Europe/Dubln"), r"name \(did you mean 'Europe/Dublin'\?\): give one of the IANA"),
        *(
            (with_window(throttle_mb_per_s=rate), r"windows\]\] throttle_mb_per_s = .* from 0.001 to 1e\+06, or 0 for")
            for rate in (-1, 0.0009, 1000001, float("nan"))
        ),
        (
            with_window(days=[], end="6", time_zone="x", start="7", throttle_mb_per_s=-1),
            r"^5 problems:\n- .* days .*\n- .* start .*\n- .* end .*\n- .* time_zone .*\n- .* throttle_mb_per_s .*$",
        ),
        *(
            (with_window(first_night=text), r"\[schedule\] first_night = .* give a date of the years 2000 to 2999")
            for text in (
                "2026-02-29",
                "20261127",
                "2026-W48-5",
                "27.11.2026",
                "1999-12-31",
                "3000-01-01",
                "2026-11-27\n",
            )
        ),
        (
            with_window(first_night=date(2026, 11, 27)),
            r"first_night = .*: expected text in .*, such as \"2026-11-27\"$",
        ),
        (
            {"schedule": {"first_night": "2026-11-27"}},
            r"^\[schedule\] first_night = '2026-11-27' is not usable: nights are those of \[\[schedule.windows",
        ),
        (
            {"schedule": {"first_night": "2026-11-27", "waves": -1}},
            r"^\[schedule\] waves = -1 is not usable: give a number from 0 to 10000$",
        ),
        (with_window(first_night="2026-11-27", days=[]), r"^\[\[schedule.windows\]\] days = \[\] is not usable.*$"),
        ({"policy": {"topic_spread": 0.9}}, r"topic_spread = 0.9 is not usable: give a number from 1 to 1000, or 0"),
        ({"policy": {"start_at": -0.1}}, r"^\[policy\] start_at = -0.1 is not usable: give a number from 0 to 100$"),
        (
            {"policy": {"start_at": 0.04, "rack_policy": "none"}},
            r"^\[policy\] start_at = 0.04 is not usable: every band is wider, so nothing would wait: give more than "
            "0.05, or 0 to plan every night$",
        ),
        ({"policy": {"topic_leader_spread": 0.5}}, r"topic_leader_spread = 0.5 is not usable: give a number from 1"),
        ({"solver": {"lp_deterministic_time": 0}}, r"lp_deterministic_time = 0"),
        (
            {"quality": {"allow_unreadable_files": ["*"]}},
            r"allow_unreadable_files = '\*' is not usable: name the files",
        ),
        ({"quality": {"allow_unreadable_files": "a.md"}}, "allow_unreadable_files = 'a.md': expected a list of texts"),
        ({"quality": {"allow_headless_describe": 1}}, "allow_headless_describe = 1: expected true or false"),
        ({"quality": {"assignment_is_state": "yes"}}, "assignment_is_state = 'yes': expected true or false"),
        ({"policy": {"topic_spread": -1}}, r"topic_spread = -1.* is not usable"),
        ({"policy": {"topic_spread": 1001}}, r"topic_spread = 1001.* is not usable"),
        ({"policy": {"topic_spread": float("nan")}}, "topic_spread = nan is not usable"),
        ({"baseline": {"algorithm": "random"}}, "use auto, striped or admin_utils"),
        ({"emit": {"throttle_style": "none"}}, "use careful or kafka"),
        ({"clusters": [{"id": "a"}]}, r"give input \(a folder\) or bootstrap_servers"),
        *(
            (
                {"clusters": [{"id": "a", "bootstrap_servers": servers}]},
                rf"^\[\[clusters\]\] 'a' bootstrap_servers = '{re.escape(wrong)}' is not usable: write HOST:PORT",
            )
            for servers, wrong in {
                "HOST:PORT": "HOST:PORT",
                "h:9092, g:x,SSL://f:0": "g:x, SSL://f:0",
                "h:65536": "h:65536",
                "h:": "h:",
                "h:1;g:2": "h:1;g:2",
                "[::1": "[::1",
                "[::1]9092": "[::1]9092",
                "::1:x": "::1:x",
                ",": ",",
            }.items()
        ),
        ({"clusters": [{"id": "..", "input": "x"}]}, "not only dots"),
        ({"clusters": [{"id": "-b", "input": "x"}]}, "no dash at the beginning"),
        (
            {"clusters": [{"id": "a", "input": "x"}, {"id": "b", "input": "y"}], "policy": {"drain_brokers": [1]}},
            r"give drain_brokers in the \[\[clusters\]\] table of its cluster",
        ),
        ({"clusters": [{"id": "a/b", "input": "x"}]}, "use letters, digits"),
        *(
            (
                {"clusters": [{"id": name, "input": "x"}]},
                f"'{name}'.*folders or pages of a run have that name; choose another",
            )
            for name in ("quality", "report.css", "superseded-a-1")
        ),
        ({"clusters": [{"id": "a.html", "input": "x"}]}, r"'a\.html'.*pages of a run end in \.html; choose an id"),
        ({"clusters": [{"input": "x"}]}, r"^\[\[clusters\]\]: id is missing$"),
        (
            {"clusters": [{"id": "a", "input": "x", "captured_at": "yesterday"}]},
            "captured_at = 'yesterday' is not a time",
        ),
        (
            {"clusters": [{"id": "a", "input": "x", "kafka_version": "v3.9"}]},
            "'a' kafka_version = 'v3.9' is not a version: give for example 4.3 or 3.9.1",
        ),
        ({"clusters": [{"id": "a", "input": "x"}, {"id": "a", "input": "y"}]}, "name each cluster once"),
        *(
            (
                {"clusters": [{"id": "a", "input": "x", "kafka_version": version}]},
                f"'a' kafka_version = '{version}' is not a version: give for example 4.3 or 3.9.1",
            )
            for version in ("abc", "0", "0.7", "-1")
        ),
        (
            {"clusters": {"id": "a", "input": "x"}},
            r"^\[\[clusters\]\]: write one table with this heading, in two brackets",
        ),
        ({"clusters": [{"id": "a", "input": "x"}, 3]}, r"^\[\[clusters\]\]: write one table with this heading"),
        ({"policy": 3}, r"^\[policy\]: 3 is not a table: write name = value below \[policy\]$"),
    ],
)
def test_nonsense_is_refused(content: dict[str, object], expected: str) -> None:
    """Unknown names, wrong types and values out of range are errors that name the expected value."""
    with pytest.raises(ConfigError, match=expected):
        build(merge(DEFAULTS, content))


def test_servers_are_written_as_for_kafkas_client() -> None:
    """Host and port are those that kafka-python connects to; a missing port is 9092."""
    servers = "h, h:1,,SSL://h:2,[::1]:3, [::1],::1, SSL://::1 ,10.0.0.1:4"
    build(merge(DEFAULTS, {"clusters": [{"id": "a", "bootstrap_servers": servers}]}))
    addresses = server_addresses(servers)
    assert len(addresses) == 8
    assert [server_address(text) for text in addresses] == [
        (host, port) for host, port, _ in collect_hosts(addresses, randomize=False)
    ]


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """Knobs of the file and of options, folders that can't be written and the run id: one message, a line each."""
    file, blocked = tmp_path / "c.toml", tmp_path / "taken"
    blocked.write_text("a file")
    file.write_text(
        '[[clusters]]\nid = "a"\ninput = "x"\nmax_moves = -1\nkind = 7\n'
        "[policy]\ndisk_band = '5%'\nmove_price = -1\nin_band = -1\n[solver]\nrounds = 0\nlp_deterministic_time = 0\n"
    )
    words = ("--config", str(file), "--set", "rounds", "--set", "emit.throttle_style=none", "--run-id", "a/b")
    with pytest.raises(ConfigError) as caught:
        checked(["ingest"], parser("test").parse_args(words))
    expected = str(caught.value).splitlines()
    assert expected[0] == f"{len(expected) - 1} problems:"
    starts = (
        "--run-id 'a/b': use letters",
        "--set rounds: write SECTION.KEY=VALUE",
        f"{file}: [policy] disk_band = '5%': expected a number",
        f"{file}: [policy] move_price = -1.0 is not usable",
        f"{file}: [policy] in_band = -1.0 is not usable",
        f"{file}: [solver] rounds = 0 is not usable",
        f"{file}: [solver] lp_deterministic_time = 0.0 is not usable",
        "[emit] throttle_style = 'none' is not usable",
        f"{file}: [[clusters]]: unknown 'kind'",
        f"{file}: [clusters] max_moves = -1 is not usable",
    )
    assert len(expected) == len(starts) + 1
    for start in starts:
        assert [line for line in expected if line.startswith(f"- {start}")], start


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (
            "output",
            "{blocked}/out",
            r"^\[storage\] output: {blocked}/out/r1 can't be written \({blocked}: Not a directory\)",
        ),
        (
            "warehouse",
            "{blocked}",
            r"^\[storage\] warehouse: {blocked} can't be written \({blocked}: Not a directory\)",
        ),
        (
            "warehouse",
            "/proc/tables",
            r"^\[storage\] warehouse: /proc/tables can't be written \(/proc: .*: name",
        ),
        ("output", "s3a://bucket/plans", r"^\[storage\] output = 's3a://bucket/plans' .*: files are written to local"),
        ("warehouse", "hdfs://h/tables", None),
        (
            "warehouse",
            "s3a://bucket/tables",
            r"^\[storage\] warehouse = 's3a://bucket/tables' .* set \[storage\] single_w",
        ),
        ("warehouse", "s3://bucket/tables", r"of two commits to a table in S3, Spark may lose one"),
        ("output", "{home}/new/out", None),
    ],
)
def test_folders_are_tried_before_anything_starts(knob: str, value: str, expected: str | None, tmp_path: Path) -> None:
    """A folder that can't be written is refused with the reason; the check leaves nothing behind."""
    blocked, home = tmp_path / "taken", tmp_path / "home"
    blocked.write_text("a file")
    home.mkdir()
    places = {"output": str(home / "out"), "warehouse": str(home / "tables")}
    places[knob] = value.format(blocked=blocked, home=home)
    folder_options = [word for name, folder in places.items() for word in (f"--{name}", folder)]
    words = ("--cluster", "a", "--input", "x", "--run-id", "r1", *folder_options)
    options = parser("test").parse_args(words)
    if expected is None:
        assert checked(["ingest"], options)[0].storage.output == places["output"]
    else:
        with pytest.raises(ConfigError, match=expected.replace("{blocked}", str(blocked))):
            checked(["ingest"], options)
    assert list(home.iterdir()) == []


def test_options_lie_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    """Options override the file, the file overrides the defaults, and all other values stay."""
    file = tmp_path / "c.toml"
    file.write_text('[[clusters]]\nid = "a"\ninput = "in"\n[policy]\ndrain_brokers = [1]\ndisk_band = 0.2\n')
    words = ("--config", str(file), "--drain", "2,3", "--set", "solver.rounds=7", "--set", "baseline.algorithm=striped")
    settings = settings_from(*words)
    assert settings.policy.drain_brokers == (2, 3)
    assert settings.policy.disk_band == 0.2
    assert settings.policy.in_band == 0.1
    assert settings.solver.rounds == 7
    assert settings.baseline.algorithm == "striped"
    assert settings.clusters[0].input == str(tmp_path / "in")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "no cluster is named"),
        (("--input", "x"), "name it with --cluster ID"),
        (("--cluster", "a"), "--cluster a does not say where to read it: also give --input DIR or .*PORT$"),
        (
            ("--cluster", "a", "--config", str(HOME / "conf/sample.toml")),
            r"^--cluster a is not in .*sample\.toml, which names sample: also give --input DIR or .*PORT$",
        ),
        (("--cluster", "a", "--input", "x", "--set", "policy.disk_band=5%"), r"^\[policy\] disk_band = '5%': expected"),
        (("--config", "/nowhere.toml"), "cannot read the configuration /nowhere.toml"),
        (
            ("--cluster", "sampel", "--config", str(HOME / "conf/sample.toml")),
            r"which names sample \(did you mean 'sample'\?\): also give --input DIR or",
        ),
        (("--cluster", "a", "--input", "x", "--set", "rounds=3"), "write SECTION.KEY=VALUE, e.g. solver.rounds=3$"),
        (("--cluster", "a", "--input", "x", "--set", "ronds=3"), "write SECTION.KEY=VALUE, e.g. solver.rounds=2$"),
        (
            ("--cluster", "a", "--input", "x", "--set", "policy.disk-band=1"),
            r"'disk-band' \(did you mean 'disk_band'\?",
        ),
        (("--cluster", "a", "--input", "x", "--set", "solver.ronds=3"), r"'ronds' \(did you mean 'rounds'\?\)"),
        (("--cluster", "a", "--input", "x", "--set", "solvr.rounds=3"), r"'solvr' \(did you mean 'solver'\?\)"),
        (("--cluster", "a", "--input", "x", "--set", "policy.rounds=3"), r"'rounds' \(it is in \[solver\]\)"),
        (("--cluster", "a", "--input", "x", "--set", "clusters.id='b'"), "'b': describe a cluster by --cluster ID, or"),
    ],
)
def test_wrong_use_is_one_clear_line(words: tuple[str, ...], expected: str) -> None:
    """The error of an incomplete command line names what is missing."""
    with pytest.raises(ConfigError, match=expected):
        settings_from(*words)


ONE = ("--cluster", "a", "--input", "x")


def test_options_that_take_lists_add_up() -> None:
    """Each broker and each pattern once, in the order they were given."""
    words = ("--drain", "3", "--exclude-topics", "a", "--drain", "4,3", "--exclude-topics", "b", "--demote", "1")
    policy = settings_from(*ONE, *words, "--demote", "2", "--exclude-brokers", "5", "--exclude-brokers=6").policy
    assert (policy.drain_brokers, policy.demote_brokers, policy.exclude_brokers) == ((3, 4), (1, 2), (5, 6))
    assert policy.exclude_topics == ("a", "b")
    assert settings_from(*ONE, "--topics", "a.*", "--topics=b").policy.topics == ("a.*", "b")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--drain", "3", "--set", "policy.drain_brokers=[4]"), "--drain 3 and --set policy.drain_brokers=[4]"),
        (
            ("--set", "policy.exclude_topics=['c']", "--exclude-topics", "a", "--exclude-topics", "b"),
            "--exclude-topics a --exclude-topics b and --set policy.exclude_topics=['c']",
        ),
        (("--output", "o", "--set", "storage.output='o'"), "--output o and --set storage.output='o'"),
        (("--set", "solver.rounds=2", "--set", "solver.rounds=3"), "--set solver.rounds=2 and --set solver.rounds=3"),
    ],
)
def test_a_knob_is_set_once(words: tuple[str, ...], expected: str) -> None:
    """A knob that is set twice, by its option or by ``--set``, is an error."""
    with pytest.raises(ConfigError) as caught:
        settings_from(*ONE, *words)
    assert str(caught.value) == f"{expected} set the same knob: give one of them"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--only", "drain", "--only", "racks"), "--only is given twice, drain and racks: give it once"),
        (("--run-id", "a", "--run-id=b"), "--run-id is given twice, a and b: give it once"),
        (("--drai", "3"), "there is no option --drai (did you mean '--drain'?)"),
        (("--excludetopics=a",), "there is no option --excludetopics (did you mean '--exclude-topics'?)"),
        (
            ("--throttle-mb-per-s", "5"),
            "there is no option --throttle-mb-per-s: give --set schedule.throttle_mb_per_s=VALUE",
        ),
        (("--only", "rack"), "argument --only: unknown 'rack' (did you mean 'racks'?); choose from racks, drain, "),
    ],
)
def test_options_are_whole_and_given_once(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    """A job accepts no abbreviated option, and no second value."""
    with pytest.raises(SystemExit) as ended:
        parser("test").parse_args([*ONE, *words])
    assert ended.value.code == 2
    assert f"error: {expected}" in capsys.readouterr().err


def test_lists_of_the_file_that_options_replace_are_named(tmp_path: Path) -> None:
    """A replaced list is reported, unless it stays the same or is in a cluster's table."""
    file = tmp_path / "c.toml"
    file.write_text(
        '[policy]\ndrain_brokers = [1]\nexclude_topics = ["t"]\ndemote_brokers = [7]\ndisk_band = 0.2\n'
        '[[clusters]]\nid = "a"\ninput = "x"\nexclude_brokers = [9]\n'
    )
    words = ("--drain", "2,3", "--set", "policy.exclude_topics=[]", "--set", "policy.disk_band=0.3", "--demote", "7")
    options = parser("test").parse_args(["--config", str(file), *words, "--exclude-brokers", "8"])
    assert replaced_lists(options) == [
        f"--drain 2,3 replaces [policy] drain_brokers = [1] of {file}",
        f"--set policy.exclude_topics=[] replaces [policy] exclude_topics = ['t'] of {file}",
    ]
    assert replaced_lists(parser("test").parse_args([*ONE, *words])) == []


def test_clusters_of_the_file_that_options_replace_are_named(tmp_path: Path) -> None:
    """The line has the keys of each replaced cluster, because its settings are ignored."""
    file = tmp_path / "c.toml"
    file.write_text('[[clusters]]\nid = "a"\ninput = "x"\ndrain_brokers = [9]\n[[clusters]]\nid = "b"\ninput = "y"\n')

    def replaced(*words: str) -> list[str]:
        return replaced_lists(parser("test").parse_args(["--config", str(file), "--cluster", "a", *words]))

    expected = f"replaces [[clusters]] of {file}: a (input, drain_brokers), b (input)"
    assert replaced("--input", "z") == [f"--cluster a --input {expected}"]
    assert replaced("--bootstrap-server", "h:1") == [f"--cluster a --bootstrap-server {expected}"]
    assert replaced("--drain", "3") == []


@pytest.mark.parametrize(
    ("words", "used"),
    [
        ((), None),
        (("--kafka-version", "0.8"), None),
        (("--kafka-version", "4.3.9-rc1"), None),
        (("--kafka-version", "5.7"), "5.7 is not a known release (0.8 to 4.3 are): the rules of 4.3 are used"),
        (("--kafka-version", "5"), "5 is not a known release (0.8 to 4.3 are): the rules of 4.3 are used"),
        (("--kafka-version", "3.12"), "3.12 is not a known release (0.8 to 4.3 are): the rules of 3.9 are used"),
    ],
)
def test_an_unknown_release_is_named(words: tuple[str, ...], used: str | None) -> None:
    """A run with an unknown release uses the rules of the newest known release before it, and says so."""
    remedy = "for a distribution, give the Kafka release that it contains"
    assert unknown_releases(settings_from(*ONE, *words)) == (
        [f"warning: cluster a: Kafka {used}; {remedy}"] if used else []
    )


def test_a_uri_is_no_path_of_this_machine() -> None:
    """A URI in an option does not change; a path becomes absolute."""
    inputs = [settings_from("--cluster", "a", "--input", source).clusters[0].input for source in ("s3a://b/x", "x")]
    assert inputs == ["s3a://b/x", str(Path("x").absolute())]


def test_one_cluster_of_a_file_can_be_planned_alone(tmp_path: Path) -> None:
    """The cluster keeps its own settings, and the options also apply to it."""
    file = tmp_path / "c.toml"
    two = "".join(f'[[clusters]]\nid = "{name}"\ninput = "in-{name}"\ndrain_brokers = [1]\n' for name in "ab")
    file.write_text(two)
    settings = settings_from("--config", str(file), "--cluster", "b", "--drain", "2")
    assert [(cluster.id, cluster.input) for cluster in settings.clusters] == [("b", str(tmp_path / "in-b"))]
    assert requested_in(settings, "drain_brokers") == {"b": (1, 2)}


def test_a_value_that_is_refused_is_named_with_its_file(tmp_path: Path) -> None:
    """The error for a value in the file names the file; the error for an option does not."""
    file = tmp_path / "c.toml"
    file.write_text('[[clusters]]\nid = "a"\ninput = "in"\n[policy]\ndisk_band = "5%"\n')
    with pytest.raises(ConfigError, match=r"^/.*c\.toml: \[policy\] disk_band = '5%': expected a number"):
        settings_from("--config", str(file))
    with pytest.raises(ConfigError, match=r"^\[policy\] disk_band = 'x': expected a number"):
        settings_from("--config", str(file), "--set", "policy.disk_band=x")
    fixed = settings_from("--config", str(file), "--set", "policy.disk_band=0.2")
    assert fixed.policy.disk_band == 0.2


def test_a_later_stage_asks_which_run_it_goes_on_with() -> None:
    """A run that starts with ingest gets the time as its id; a later stage needs the option."""
    unnamed, with_id = parser("test").parse_args([]), parser("test").parse_args(["--run-id", "r1"])
    assert run_id_of(unnamed, ["ingest", "validate"])
    assert run_id_of(with_id, ["emit"]) == "r1"
    with pytest.raises(ConfigError, match=r"^emit continues a run: give the --run-id ID that "):
        run_id_of(unnamed, ["emit"])


@pytest.mark.parametrize("run_id", ["clusters", "report.css", "x.html"])
def test_a_run_has_no_name_of_a_page(run_id: str) -> None:
    """``./ballast report --all`` writes pages and a folder with these names next to the folders of the runs."""
    with pytest.raises(ConfigError, match="a site of all runs has a page or folder of that name"):
        run_id_of(parser("test").parse_args(["--run-id", run_id]), ["ingest"])


def test_broken_toml_names_the_place(tmp_path: Path) -> None:
    """A file that is not TOML is named with line and column."""
    file = tmp_path / "c.toml"
    file.write_text("[policy\n")
    with pytest.raises(ConfigError, match=r"c\.toml is not TOML: .*line 1, column 8"):
        read_toml(file)


def requested_in(settings: Settings, name: str) -> dict[str, Any]:
    """One of the requests, by cluster."""
    return {cluster_id: getattr(limits, name) for cluster_id, limits in settings.cluster_policies().items()}


def test_each_cluster_has_its_own_brokers_listed() -> None:
    """Lists in a cluster's table apply only to it; the policy's apply if there is one cluster."""
    table = {"id": "a", "input": "x", "drain_brokers": [3]}
    settings_of_two = build(merge(DEFAULTS, {"clusters": [table, {"id": "b", "input": "y"}]}))
    assert requested_in(settings_of_two, "drain_brokers") == {"a": (3,), "b": ()}
    alone = build(merge(DEFAULTS, {"clusters": [table], "policy": {"drain_brokers": [1]}}))
    assert requested_in(alone, "drain_brokers") == {"a": (1, 3)}


def test_each_cluster_has_its_own_pins() -> None:
    """Pins in a cluster's table apply only to it, the policy's to all. An option gives them as TOML."""
    table = {"id": "c", "input": "x", "pins": [{"topics": "audit[.].*", "brokers": [1, 2]}]}
    rack = {"policy": {"pins": [{"topics": "eu-.*", "racks": ["a"]}]}}
    settings_of_two = build(merge(DEFAULTS, {"clusters": [table, {"id": "d", "input": "y"}], **rack}))
    common, own = Pin(topics="eu-.*", racks=("a",)), Pin(topics="audit[.].*", brokers=(1, 2))
    assert requested_in(settings_of_two, "pins") == {"c": (common, own), "d": (common,)}
    words = ("--cluster", "c", "--input", "x", "--set", 'policy.pins=[{topics = "eu-.*", racks = ["a"]}]')
    with_option = settings_from(*words)
    assert requested_in(with_option, "pins") == {"c": (common,)}
    assert with_option.config_hash() != build(merge(DEFAULTS, {"clusters": [{"id": "c", "input": "x"}]})).config_hash()


def test_each_cluster_asks_for_its_own_factors() -> None:
    """Replication factors in a cluster's table apply only to it, the policy's to all; the hash includes them."""
    own = {"id": "c", "input": "x", "replication_factors": [{"topics": "audit", "factor": 4}]}
    common = {"policy": {"replication_factors": [{"topics": "eu-.*", "factor": 2}]}}
    settings_of_two = build(merge(DEFAULTS, {"clusters": [own, {"id": "d", "input": "y"}], **common}))
    everywhere, audit = TopicFactor(topics="eu-.*", factor=2), TopicFactor(topics="audit", factor=4)
    assert requested_in(settings_of_two, "replication_factors") == {"c": (everywhere, audit), "d": (everywhere,)}
    without = build(merge(DEFAULTS, {"clusters": [own, {"id": "d", "input": "y"}]}))
    assert settings_of_two.config_hash() != without.config_hash()


@pytest.mark.parametrize(
    ("approval", "problems"),
    [
        ({}, ["[approval] = {} is not usable: give at least one limit, such as most_moved_bytes = 500e9"]),
        ({"most_hours": ""}, ["[approval] most_hours = '': expected a number, such as 0.05"]),
        (
            {"most_hour": 1, "may": ["drian"], "allow_notes": [], "freeze": ["2026-12-20", "2027-01-03/2026-12-20"]},
            ["unknown 'most_hour'", "may = ['drian']", "allow_notes = []", "2026-12-20', '2027-01-03/2026-12-20'"],
        ),
        (
            {"most_hours": -1, "most_gap_percent": float("nan")},
            ["- [approval] most_hours = -1.0", "- [approval] most_gap_percent = nan"],
        ),
        (
            {"most_hours": 1.01e18, "freeze": []},
            ["most_hours = 1.01e+18", "[approval] freeze = [] is not usable: give at"],
        ),
        ({"most_hours": 1, "freeze": ["22:00/06:00"]}, ["freeze = ['22:00/06:00'] is not usable: its days and hours"]),
        ({"most_hours": 1, "freeze": ["06:00/06:00"], "time_zone": "here"}, ["['06:00/06:00']", "time_zone = 'here'"]),
        ({"clusters": [{"most_hours": 1}]}, ["[approval] clusters: id is missing"]),
        ({"clusters": [{"id": "a"}]}, ["[approval] for 'a' = {'may': ('balance', 'racks')} is not usable"]),
        (
            {"most_hours": 1, "clusters": [{"id": "a"}, {"id": "a"}]},
            ["id = ['a'] is not usable: name each cluster once"],
        ),
    ],
)
def test_rules_of_approval_are_checked(approval: dict[str, Any], problems: list[str]) -> None:
    """All problems at once: unknown rules, rules without a value, and rules that need another one."""
    with pytest.raises(ConfigError) as raised:
        build({"approval": approval})
    assert [text for text in problems if text not in str(raised.value)] == []


def test_rules_of_one_cluster_replace_those_of_all() -> None:
    """Rule by rule. The plan does not depend on them, so neither does its hash."""
    own = {"id": "a", "most_hours": 2, "may": ["drain"]}
    settings = build({"approval": {"most_hours": 1, "most_moved_bytes": 5e9, "clusters": [own]}})
    assert settings.approval
    assert settings.approval.rules_of("a").given() == {"most_hours": 2, "most_moved_bytes": 5e9, "may": ("drain",)}
    assert settings.approval.rules_of("b").may == ("balance", "racks")
    assert settings.config_hash() == build({}).config_hash()


def test_windows_are_tables_of_the_schedule(tmp_path: Path) -> None:
    """Tables of the file, or TOML in an option; stages that read the schedule see them, and the hash includes them."""
    file = tmp_path / "c.toml"
    file.write_text(
        '[[clusters]]\nid = "a"\ninput = "in"\n[schedule]\nfirst_night = "2026-11-27"\n'
        '[[schedule.windows]]\ndays = ["fri", "sun"]\nstart = "22:00"\nend = "06:00"\ntime_zone = "Europe/Dublin"\n'
        '[[schedule.windows]]\ndays = ["sat"]\nstart = "00:00"\nend = "00:00"\ntime_zone = "UTC"\n'
        "throttle_mb_per_s = 100\n"
    )
    night = Window(days=("fri", "sun"), start="22:00", end="06:00", time_zone="Europe/Dublin")
    saturday = Window(days=("sat",), start="00:00", end="00:00", time_zone="UTC", throttle_mb_per_s=100.0)
    settings = settings_from("--config", str(file))
    assert settings.schedule.windows == (night, saturday)
    assert settings.schedule.first_night == "2026-11-27"
    stored = json.loads(settings.planning_json())["schedule"]
    assert stored["windows"][0] == {
        "days": ["fri", "sun"],
        "start": "22:00",
        "end": "06:00",
        "time_zone": "Europe/Dublin",
        "throttle_mb_per_s": 0.0,
    }
    assert stored["first_night"] == "2026-11-27"
    readers = [name for name in NAMES if can_read(DECLARED[name].settings, "schedule", "windows")]
    assert readers == ["validate", "solve", "plan", "emit"]
    option = 'schedule.windows=[{days = ["mon"], start = "22:00", end = "06:00", time_zone = "Europe/Dublin"}]'
    other = settings_from("--config", str(file), "--set", option)
    assert [window.days for window in other.schedule.windows] == [("mon",)]
    assert other.config_hash() != settings.config_hash()


def test_time_zones_need_no_files_of_the_system() -> None:
    """A slim image has none; the package tzdata is among the pinned packages."""
    code = "from zoneinfo import TZPATH, ZoneInfo; assert not TZPATH; ZoneInfo('Europe/Dublin')"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONTZPATH": ""}, check=True)
    for lock in ("requirements.lock", "requirements-airflow.lock"):
        assert "\ntzdata==" in (HOME / "setup" / lock).read_text(encoding="utf-8"), lock


def test_each_cluster_has_its_own_limit() -> None:
    """The policy's limit applies to each cluster by itself; a cluster's own limit replaces it, knob by knob."""
    clusters = [
        {"id": "a", "input": "x"},
        {"id": "b", "input": "y", "max_moved_gb": 0.5},
        {"id": "c", "input": "z", "max_moves": 7},
    ]
    limits = requested_in(
        build(merge(DEFAULTS, {"clusters": clusters, "policy": {"max_moved_gb": 2000}})), "move_limit"
    )
    two_tb = 2 * 10**12
    assert {name: (limit.moved_bytes, limit.moves) for name, limit in limits.items()} == {
        "a": (two_tb, NO_LIMIT),
        "b": (5 * 10**8, NO_LIMIT),
        "c": (two_tb, 7),
    }
    assert requested_in(build(merge(DEFAULTS, {"clusters": clusters[:1]})), "move_limit") == {"a": MoveLimit()}
    least = build(merge(DEFAULTS, {"clusters": clusters[:1], "policy": {"max_moved_gb": 1e-12}}))
    assert least.cluster_policies()["a"].move_limit.moved_bytes == 0


def test_each_cluster_mends_only_what_is_asked_of_it() -> None:
    """A cluster's own ``only`` replaces the policy's, which the option sets. Without both, everything is fixed."""
    clusters = [{"id": "a", "input": "x", "only": "leaders"}, {"id": "b", "input": "y"}]
    policy = {"only": "drain"}
    assert requested_in(build({"clusters": clusters, "policy": policy}), "only") == {"a": "leaders", "b": "drain"}
    assert requested_in(build({"clusters": clusters[1:]}), "only") == {"b": ""}
    words = ("--cluster", "c", "--input", "/x", "--only", "demote", "--demote", "3")
    assert requested_in(settings_from(*words), "only") == {"c": "demote"}
    demoting = [{**cluster, "only": "demote", "demote_brokers": [3]} for cluster in clusters]
    assert requested_in(build({"clusters": demoting}), "only") == {"a": "demote", "b": "demote"}


def test_hash_sees_what_decides_the_plan_alone() -> None:
    """Folders and client files don't change the hash; a band does."""
    base = build(merge(DEFAULTS, {"clusters": [{"id": "a", "input": "x"}]}))
    moved = build(
        merge(DEFAULTS, {"clusters": [{"id": "a", "input": "y", "client_config": "s"}], "storage": {"output": "z"}})
    )
    wider = build(merge(DEFAULTS, {"clusters": [{"id": "a", "input": "x"}], "policy": {"disk_band": 0.1}}))
    assert base.config_hash() == moved.config_hash()
    assert base.config_hash() != wider.config_hash()


def test_folders_are_tried_though_settings_are_wrong(tmp_path: Path) -> None:
    """A wrong knob and an output that can't be written are reported together."""
    blocked = tmp_path / "taken"
    blocked.write_text("a file")
    words = ("--cluster", "a", "--input", "x", "--set", "solver.rounds=0", "--output", str(blocked))
    with pytest.raises(ConfigError) as caught:
        checked(["ingest"], parser("test").parse_args(words))
    assert [line.split(":")[0] for line in caught.value.problems] == [
        "[solver] rounds = 0 is not usable",
        "[storage] output",
    ]


def test_a_start_width_is_in_the_hash_only_if_it_is_set() -> None:
    """Without it the hash is that of releases that had no such knob."""
    without = build(merge(DEFAULTS, {"clusters": [{"id": "c", "input": "x"}]}))
    waiting = build(merge(DEFAULTS, {"clusters": [{"id": "c", "input": "x"}], "policy": {"start_at": 0.15}}))
    assert "start_at" not in without.planning_json()
    assert json.loads(waiting.planning_json())["policy"]["start_at"] == 0.15
    assert without.config_hash() != waiting.config_hash()
