"""The wire format of Protocol Buffers, without their descriptions: enough to read and write ONNX,
and to read MindSpore's checkpoints. Source: protobuf.dev/programming-guides/encoding."""

from __future__ import annotations

from collections.abc import Iterator

Value = int | bytes
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
MASK_64 = (1 << 64) - 1


def fields(content: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Yields the number and the value of each field of a message: an unsigned integer, or the bytes
    of a text, a message, packed numbers, a float or a double. Raises ValueError if it is none."""
    view = memoryview(content)
    place = 0
    while place < len(view):
        key, place = varint(view, place)
        number, kind = divmod(key, 8)
        if kind == VARINT:
            value: Value
            value, place = varint(view, place)
            yield number, value
            continue
        if kind == BYTES:
            size, place = varint(view, place)
        elif kind in (FIXED_32, FIXED_64):
            size = 4 if kind == FIXED_32 else 8
        else:
            raise ValueError(f"a field of the unknown type {kind}")
        end = place + size
        if end > len(view) or not number:
            raise ValueError("a field that ends behind the message")
        yield number, bytes(view[place:end])
        place = end


def message(content: Value) -> dict[int, list[Value]]:
    """The values of a message by the numbers of their fields. Raises ValueError."""
    found: dict[int, list[Value]] = {}
    for number, value in fields(octets(content)):
        found.setdefault(number, []).append(value)
    return found


def octets(value: Value) -> bytes:
    """The bytes of a field. Raises ValueError if it is a number."""
    if isinstance(value, int):
        raise ValueError("a number where there should be bytes")
    return value


def integers(values: list[Value]) -> list[int]:
    """The signed integers of a repeated field, packed or not."""
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        view = memoryview(value)
        place = 0
        while place < len(view):
            number, place = varint(view, place)
            found.append(number)
    return [number - (1 << 64) if number >> 63 else number for number in found]


def varint(view: memoryview, place: int) -> tuple[int, int]:
    """The integer at a place, and the place behind it. Raises ValueError."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(view):
            break
        octet = view[place]
        place += 1
        value |= (octet & 127) << shift
        if octet < 128:
            return value & MASK_64, place
    raise ValueError("a number without an end")


def integer_field(number: int, value: int) -> bytes:
    """The bytes of a field with an integer."""
    return _encoded(number * 8 + VARINT) + _encoded(value & MASK_64)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """The bytes of a field with a text, bytes or a message."""
    if isinstance(value, str):
        value = value.encode()
    return _encoded(number * 8 + BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    octets = bytearray()
    while value > 127:
        octets.append(value & 127 | 128)
        value >>= 7
    octets.append(value)
    return bytes(octets)
