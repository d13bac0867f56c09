"""TFRecord: our parser against Google's protobuf on a record of CLEVR's size. Needs `pip install protobuf`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from emorl.data.tfrecord import parse_example
from emorl.errors import UserError
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import table

ROUNDS = 5


def example_class() -> Any:
    """tf.train.Example, described here because TensorFlow is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise UserError("This compares with protobuf, which is not installed: pip install protobuf") from None
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = {"BytesList": 12, "FloatList": 2, "Int64List": 3}
    for name, kind in kinds.items():
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, type=kind, label=3)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(kinds, start=1):
        feature.field.add(
            name=name.lower(), number=number, type=11, label=1, type_name=f".t.{name}", oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".t.Feature")
    features.field.add(name="feature", number=1, type=11, label=3, type_name=".t.Features.FeatureEntry")
    example = file.message_type.add(name="Example")
    example.field.add(name="features", number=1, type=11, label=1, type_name=".t.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def measure(job: Job) -> Iterator[Row]:
    """Seconds to get the image out of a record, the least of several rounds in turns."""
    Example = example_class()
    rng = np.random.default_rng(0)
    arrays = {"image": rng.integers(0, 256, 240 * 320 * 3), "mask": rng.integers(0, 2, 11 * 240 * 320) * 255}
    example = Example()
    for name, values in arrays.items():
        example.features.feature[name].byteslist.value.extend(bytes([v]) for v in values)
    example.features.feature["x"].floatlist.value.extend(rng.random(11))
    payload = example.SerializeToString()

    def ours() -> Any:
        return parse_example(payload)["image"]

    def theirs() -> Any:
        parsed = Example.FromString(payload)
        return np.frombuffer(b"".join(parsed.features.feature["image"].byteslist.value), dtype=np.uint8)

    def seconds(parse: Callable[[], Any]) -> float:
        started = time.process_time()
        parse()
        return time.process_time() - started

    assert np.array_equal(ours(), theirs())
    rounds = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    for label, column in zip(("ours", "protobuf"), zip(*rounds, strict=True), strict=True):
        yield Row(label, {"seconds": min(column), "bytes": len(payload)})


def sections(result: Result) -> dict[str, str]:
    """Returns the table for the page about data."""
    seconds = {row.label: row.values["seconds"] for row in result.rows}
    lines = [
        [label, f"{1000 * value:.1f}", f"{value / seconds['ours']:.1f}"] for label, value in seconds.items()
    ]
    return {"docs/data.md#tfrecord": table(["parser", "CPU ms per CLEVR record", "times as long"], lines)}


EXPERIMENT = Experiment("Our parser of TFRecords beside protobuf", measure, sections=sections)
