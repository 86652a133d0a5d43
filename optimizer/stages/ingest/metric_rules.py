"""Rules for the rows of a metrics table: typed columns, and each broken rule as one ``problem``."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from optimizer.stages.shared.records import LARGEST
from sources.metrics_csv import MEASURES, METRICS, Measure

# Largest size or rate: far more than any broker has, and sums over partitions stay within int64. Counters may be more.
_LARGEST, _LARGEST_TOTAL = float(LARGEST), 9.223372036854775e18
_SPELT = ("[- ]+", "_")


@dataclass(frozen=True)
class Slot:
    """One measure of a row.

    Parameters
    ----------
    label : str
        First part of the names of its rules.
    metric, factor, text : Column
        Name of the metric (null if unknown), factor to its unit, and the value as text.
    required : bool
        Whether a blank value breaks a rule (long form); in the wide form there is no sample then.
    """

    label: str
    metric: Column
    factor: Column
    text: Column
    required: bool

    @staticmethod
    def fixed(measure: Measure, text: Column) -> "Slot":
        """A column of the wide form."""
        return Slot(measure.metric, F.lit(measure.metric), F.lit(measure.factor), text, False)

    @staticmethod
    def named(name: Column, text: Column) -> "Slot":
        """The value of the long form; a column names the metric."""
        spelt = F.regexp_replace(F.lower(F.trim(name)), *_SPELT)
        metrics = F.create_map(*(F.lit(x) for key, measure in MEASURES.items() for x in (key, measure.metric)))
        factors = F.create_map(*(F.lit(x) for key, measure in MEASURES.items() for x in (key, measure.factor)))
        return Slot("value", F.try_element_at(metrics, spelt), F.try_element_at(factors, spelt), text, True)


def problem(condition: Column, rule: str, reason: Column, remedy: str, severity: str = "error") -> Column:
    """A struct that describes the broken rule; null if the condition is false."""
    fields = {"rule": F.lit(rule), "severity": F.lit(severity), "reason": reason, "remedy": F.lit(remedy)}
    return F.when(condition, F.struct(*(value.alias(name) for name, value in fields.items())))


def _quote(start: str, value: Column, end: str) -> Column:
    return F.concat(F.lit(start), F.coalesce(value, F.lit("")), F.lit(end))


def observed_at(text: Column) -> Column:
    """A timestamp from ISO 8601 (UTC without a zone), or from seconds, milliseconds or microseconds since 1970."""
    number = text.try_cast("double")
    return (
        F.when(text.rlike(r"^[0-9]{9,11}(\.[0-9]+)?$"), F.timestamp_millis((number * 1000).cast("bigint")))
        .when(text.rlike("^[0-9]{12,14}$"), F.timestamp_millis(number.cast("bigint")))
        .when(text.rlike("^[0-9]{15,16}$"), F.timestamp_micros(number.cast("bigint")))
        .when(text.rlike("^[0-9]{4}-"), text.try_cast("timestamp"))
    )


def _whole(text: Column) -> Column:
    """An int from digits, or from a double of Parquet such as 3.0."""
    return F.when(text.rlike(r"^-?[0-9]+(\.0+)?$"), F.substring_index(text, ".", 1).try_cast("int"))


def typed_location(location: Mapping[str, Column]) -> dict[str, Column]:
    """Typed topic, partition, broker_id and observed_at from texts; -1 is Kafka's "no broker"."""
    broker = _whole(location["broker_id"])
    return {
        "topic": location["topic"],
        "partition": _whole(location["partition"]),
        "broker_id": F.when(broker >= 0, broker),
        "observed_at": observed_at(location["observed_at"]),
    }


def location_problems(location: Mapping[str, Column], *, broken: Column, timed: bool) -> list[Column]:
    """Rules for topic, partition, broker and time; ``broken`` rows have another number of columns than the header."""
    typed = typed_location(location)
    partition, broker, time = location["partition"], location["broker_id"], location["observed_at"]
    fits = ~broken
    correct = "correct the line in the export"
    truncated = f"{correct}; if it is the last line, the file may be truncated: export it again"
    without_topic = fits & location["topic"].isNull() & (typed["broker_id"].isNull() | partition.isNotNull())
    bad_partition = partition.isNotNull() & (typed["partition"].isNull() | (typed["partition"] < 0))
    return [
        problem(
            broken,
            "columns_match_header",
            F.lit("the line has another number of columns than the header"),
            truncated,
        ),
        problem(
            without_topic, "topic_given", F.lit("the line has no topic, and is not the total of a broker"), correct
        ),
        problem(
            fits & bad_partition,
            "partition_valid",
            _quote("partition '", partition, "' is not a whole number from 0"),
            correct,
        ),
        problem(
            fits & broker.isNotNull() & _whole(broker).isNull(),
            "broker_valid",
            _quote("broker_id '", broker, "' is not a whole number"),
            correct,
        ),
        problem(
            fits & F.lit(timed) & typed["observed_at"].isNull(),
            "time_valid",
            _quote("time '", time, "' is neither ISO 8601 nor seconds, milliseconds or microseconds since 1970"),
            "export the time of each sample, in UTC",
        ),
    ]


def _largest(slot: Slot) -> Column:
    """The limit that the value must stay below, in the metric's unit."""
    return F.when(F.endswith(slot.metric, F.lit("_total")), F.lit(_LARGEST_TOTAL)).otherwise(F.lit(_LARGEST))


def value_of(slot: Slot) -> Column:
    """The value in the metric's unit; null if the row has no usable value."""
    number = slot.text.try_cast("double")
    value = number * slot.factor
    usable = slot.metric.isNotNull() & ~F.isnan(number) & (number >= 0) & (value < _largest(slot))
    return F.when(usable, value)


def slot_problems(slot: Slot, *, name: Column, broken: Column) -> list[Column]:
    """Rules for one measure; ``name`` is its name in the row."""
    number, given = slot.text.try_cast("double"), ~broken & slot.metric.isNotNull() & slot.text.isNotNull()
    value_is = F.concat(name, F.lit(" '"), slot.text, F.lit("' is "))
    export = "export the metric again; a missing value is better than a wrong one"
    unread = given & (number.isNull() | F.isnan(number))
    large = given & ~F.isnan(number) & (number * slot.factor >= _largest(slot))
    blank = ~broken & F.lit(slot.required) & slot.metric.isNotNull() & slot.text.isNull()
    unknown = ~broken & slot.metric.isNull()
    not_known = _quote("metric '", name, f"' is not used; known are {', '.join(METRICS)}, in any unit")
    too_large = F.concat(value_is, F.lit(f"more than {LARGEST} bytes: is the unit right?"))
    return [
        problem(unread, f"{slot.label}_is_number", F.concat(value_is, F.lit("not a number")), export),
        problem(given & (number < 0), f"{slot.label}_not_negative", F.concat(value_is, F.lit("negative")), export),
        problem(large, f"{slot.label}_in_range", too_large, export),
        problem(blank, f"{slot.label}_given", F.concat(name, F.lit(" has no value")), export),
        problem(unknown, f"{slot.label}_known", not_known, "leave this metric out of the export", "warning"),
    ]
