"""JSON as Kafka's tools read it: with Jackson, leniently, and with Kafka's error messages.

References
----------
org.apache.kafka.server.util.Json and server.util.json.{JsonValue, JsonObject, DecodeJson}, Kafka 4.3.1; Jackson 2.21.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from optimizer.errors import KafkaError

T = TypeVar("T")

_BLANKS = " \t\r\n"
_EMPTY = "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read(text: str) -> Any:
    """Parse the first JSON value. As in Jackson, later text is ignored and the last of equal keys wins.

    Raises
    ------
    KafkaError
        AdminOperationException if the text is not JSON, without Jackson's message; JsonMappingException if it is blank.
    """
    if text == "":
        raise KafkaError("AdminOperationException", _EMPTY)
    content = text.lstrip(_BLANKS)
    if not content:
        raise _mapping("Expected JSON object, received ")
    try:
        value, end = _DECODER.raw_decode(content)
    except (ValueError, RecursionError) as error:
        raise KafkaError("AdminOperationException", None) from error
    if not isinstance(value, dict | list | str) and re.match(r"[\w.$]", content[end:]):
        # A number or a word must be followed by a separator: "01" and "nullx" are not JSON.
        raise KafkaError("AdminOperationException", None)
    return value


def compact(value: Any) -> str:
    """A document as Jackson writes it: no blanks, keys in order, minimal escapes."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # Jackson writes the hexadecimal digits of an escaped control character in capitals.
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)(00[01][a-f])", lambda m: m[1] + m[2].upper(), text)


def text_of(value: Any) -> str:
    """The text of a value as Jackson's JsonNode.toString prints it: compact, keys in order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{text_of(name)}:{text_of(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    if isinstance(value, float):
        return _double_text(value)
    return compact(value)


def _double_text(value: float) -> str:
    """Double.toString: plain from 0.001 to 10 million, else with an exponent."""
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = Decimal(repr(abs(value))).normalize()
    first, *rest = map(str, shortest.as_tuple().digits)
    return f"{'-' if value < 0 else ''}{first}.{''.join(rest) or '0'}E{shortest.adjusted()}"


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object.

    Raises
    ------
    KafkaError
        JsonMappingException with Kafka's message, as in the functions below.
    """
    if not isinstance(value, dict):
        raise _mapping(f"Expected JSON object, received {text_of(value)}")
    return value


def as_array(value: Any) -> list[Any]:
    """The value if it is an array, for iteration."""
    if not isinstance(value, list):
        raise _mapping(f"Expected JSON array, received {text_of(value)}")
    return value


def as_int(value: Any) -> int:
    """The value if it is a 32-bit integer; 1.0 and true are not."""
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise _mapping(f"Expected `Integer` value, received {text_of(value)}")


def as_string(value: Any) -> str:
    """The value if it is a string."""
    if isinstance(value, str):
        return value
    raise _mapping(f"Expected `String` value, received {text_of(value)}")


def as_list(value: Any, decode: Callable[[Any], T]) -> list[T]:
    """The value if it is an array, each element decoded."""
    if not isinstance(value, list):
        raise _mapping(f"Expected `JSON array` value, received {text_of(value)}")
    return [decode(item) for item in value]


def field(value: dict[str, Any], name: str) -> Any:
    """The value of a required field."""
    if name not in value:
        raise _mapping(f"No such field exists: `{name}`")
    return value[name]


def _mapping(message: str) -> KafkaError:
    return KafkaError("JsonMappingException", message)
