"""What a row of a metrics table must hold: typed columns, and each broken rule as one ``problem``."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from optimizer.stages.shared.records import LARGEST
from sources.metrics_csv import MEASURES, METRICS, Measure

# Of a size or a rate: far over any broker, and sums over partitions stay within int64. A counter may be any int64.
_LARGEST, _LARGEST_TOTAL = float(LARGEST), 9.223372036854775e18
_SPELT = ("[- ]+", "_")


@dataclass(frozen=True)
class Slot:
    """One measure of a row.

    Parameters
    ----------
    label : str
        Opens the names of its rules.
    metric, factor, text : Column
        Null metric: a name that is none of ours.
    required : bool
        A blank value breaks a rule (long form); in the wide form the sample is not there.
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
        """The value of the long form, whose metric a column names."""
        spelt = F.regexp_replace(F.lower(F.trim(name)), *_SPELT)
        metrics = F.create_map(*(F.lit(x) for key, measure in MEASURES.items() for x in (key, measure.metric)))
        factors = F.create_map(*(F.lit(x) for key, measure in MEASURES.items() for x in (key, measure.factor)))
        return Slot("value", F.try_element_at(metrics, spelt), F.try_element_at(factors, spelt), text, True)


def problem(condition: Column, rule: str, reason: Column, remedy: str, severity: str = "error") -> Column:
    """A struct that says which rule is broken, or null."""
    fields = {"rule": F.lit(rule), "severity": F.lit(severity), "reason": reason, "remedy": F.lit(remedy)}
    return F.when(condition, F.struct(*(value.alias(name) for name, value in fields.items())))


def _says(start: str, value: Column, end: str) -> Column:
    return F.concat(F.lit(start), F.coalesce(value, F.lit("")), F.lit(end))


def observed_at(text: Column) -> Column:
    """A timestamp from ISO 8601 (UTC where no zone is given), or seconds, milli- or microseconds since 1970."""
    number = text.try_cast("double")
    return (
        F.when(text.rlike(r"^[0-9]{9,11}(\.[0-9]+)?$"), F.timestamp_millis((number * 1000).cast("bigint")))
        .when(text.rlike("^[0-9]{12,14}$"), F.timestamp_millis(number.cast("bigint")))
        .when(text.rlike("^[0-9]{15,16}$"), F.timestamp_micros(number.cast("bigint")))
        .when(text.rlike("^[0-9]{4}-"), text.try_cast("timestamp"))
    )


def _whole(text: Column) -> Column:
    """An int from digits, also as Parquet's doubles print them (3.0)."""
    return F.when(text.rlike(r"^-?[0-9]+(\.0+)?$"), F.substring_index(text, ".", 1).try_cast("int"))


def typed_places(place: Mapping[str, Column]) -> dict[str, Column]:
    """Typed topic, partition, broker_id and observed_at from texts; -1 is Kafka's "no broker"."""
    broker = _whole(place["broker_id"])
    return {
        "topic": place["topic"],
        "partition": _whole(place["partition"]),
        "broker_id": F.when(broker >= 0, broker),
        "observed_at": observed_at(place["observed_at"]),
    }


def place_problems(place: Mapping[str, Column], *, broken: Column, timed: bool) -> list[Column]:
    """Rules of topic, partition, broker and time; ``broken`` rows have another number of columns than the header."""
    typed = typed_places(place)
    partition, broker, time = place["partition"], place["broker_id"], place["observed_at"]
    fits = ~broken
    mend = "mend the line in the export"
    cut = f"{mend}; where it is the last line the file may be cut off: export it again, whole"
    lost = fits & place["topic"].isNull() & (typed["broker_id"].isNull() | partition.isNotNull())
    bad_partition = partition.isNotNull() & (typed["partition"].isNull() | (typed["partition"] < 0))
    return [
        problem(broken, "columns_match_header", F.lit("another number of columns than the header has"), cut),
        problem(lost, "topic_given", F.lit("no topic, and not the total of a broker"), mend),
        problem(
            fits & bad_partition, "partition_valid", _says("partition '", partition, "' is not an int from 0"), mend
        ),
        problem(
            fits & broker.isNotNull() & _whole(broker).isNull(),
            "broker_valid",
            _says("broker_id '", broker, "' is not an int"),
            mend,
        ),
        problem(
            fits & F.lit(timed) & typed["observed_at"].isNull(),
            "time_valid",
            _says("time '", time, "' is neither ISO 8601 nor seconds, milli- or microseconds since 1970"),
            "export the time of each sample, in UTC",
        ),
    ]


def _largest(slot: Slot) -> Column:
    """What the value must stay below, in the metric's unit."""
    return F.when(F.endswith(slot.metric, F.lit("_total")), F.lit(_LARGEST_TOTAL)).otherwise(F.lit(_LARGEST))


def value_of(slot: Slot) -> Column:
    """The value in the metric's unit; null where the row gives none that can be used."""
    number = slot.text.try_cast("double")
    value = number * slot.factor
    usable = slot.metric.isNotNull() & ~F.isnan(number) & (number >= 0) & (value < _largest(slot))
    return F.when(usable, value)


def slot_problems(slot: Slot, *, name: Column, broken: Column) -> list[Column]:
    """Rules of one measure; ``name`` is what the row calls it."""
    number, given = slot.text.try_cast("double"), ~broken & slot.metric.isNotNull() & slot.text.isNotNull()
    said = F.concat(name, F.lit(" '"), slot.text, F.lit("' is "))
    export = "export the metric again; a gap is better than a wrong value"
    unread = given & (number.isNull() | F.isnan(number))
    large = given & ~F.isnan(number) & (number * slot.factor >= _largest(slot))
    blank = ~broken & F.lit(slot.required) & slot.metric.isNotNull() & slot.text.isNull()
    unknown = ~broken & slot.metric.isNull()
    others = _says("metric '", name, f"' is none of {', '.join(METRICS)}, in any unit: left out")
    return [
        problem(unread, f"{slot.label}_is_number", F.concat(said, F.lit("no number")), export),
        problem(given & (number < 0), f"{slot.label}_not_negative", F.concat(said, F.lit("negative")), export),
        problem(
            large, f"{slot.label}_in_range", F.concat(said, F.lit(f"over {LARGEST} bytes: is the unit right?")), export
        ),
        problem(blank, f"{slot.label}_given", F.concat(name, F.lit(" has no value")), export),
        problem(unknown, f"{slot.label}_known", others, "leave it out of the export", "warning"),
    ]
