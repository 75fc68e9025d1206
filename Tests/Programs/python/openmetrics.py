"""Reads OpenMetrics text from standard input with prometheus_client's parsers.

Prints each sample as OpenMetrics has it: name, labels and value. Fails if Prometheus' older text
format, which node_exporter reads, has other samples.
"""

import sys

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

text = sys.stdin.read()


def samples(families):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in families
        for sample in family.samples
    }


new = samples(text_string_to_metric_families(text))
old = samples(parser.text_string_to_metric_families(text))
assert new == old, set(new) ^ set(old)
for (name, labels), value in sorted(new.items()):
    print(name, *[f"{key}={word}" for key, word in labels], f"{value:g}")
