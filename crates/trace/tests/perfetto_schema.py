# Reads one trace with the public schema, fails on what a reader would not accept, prints events and arrows.
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent


def no_unknown_fields(message):
    assert len(UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in value if hasattr(value, "append") or hasattr(value, "add") else [value]:
            no_unknown_fields(inner)


trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
no_unknown_fields(trace)
assert {p.trusted_packet_sequence_id for p in trace.packet} == {1}

clocks = {c.clock_id: c.timestamp for c in trace.packet[0].clock_snapshot.clocks}
start = trace.packet[1]
assert start.sequence_flags & 1 and start.trace_packet_defaults.timestamp_clock_id in clocks
names = {n.iid: n.name for n in start.interned_data.event_names}
categories = {n.iid: n.name for n in start.interned_data.event_categories}
annotations = {n.iid: n.name for n in start.interned_data.debug_annotation_names}
strings = {n.iid: n.str for n in start.interned_data.debug_annotation_string_values}

tracks, counters, open_slices, started, ended, events, values, last = {}, set(), {}, set(), set(), 0, 0, 0
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        assert d.uuid not in tracks and (not d.parent_uuid or d.parent_uuid in tracks)
        assert d.child_ordering == TrackDescriptor.EXPLICIT
        tracks[d.uuid] = d.name
        if d.HasField("counter"):
            assert d.counter.unit_name
            counters.add(d.uuid)
    if not packet.HasField("track_event"):
        continue
    e = packet.track_event
    assert packet.timestamp >= last and e.track_uuid in tracks
    last = packet.timestamp
    assert (e.track_uuid in counters) == (e.type == TrackEvent.TYPE_COUNTER)
    if e.type == TrackEvent.TYPE_COUNTER:
        assert e.HasField("counter_value") and e.counter_value >= 0
        values += 1
        continue
    stack = open_slices.setdefault(e.track_uuid, [])
    if e.type == TrackEvent.TYPE_SLICE_END:
        stack.pop()
    else:
        events += 1
        assert names[e.name_iid] and all(categories[i] for i in e.category_iids)
        for a in e.debug_annotations:
            assert annotations[a.name_iid]
            assert a.HasField("uint_value") != (a.string_value_iid in strings)
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append(e.name_iid)
    assert ended.isdisjoint(e.flow_ids) and ended.isdisjoint(e.terminating_flow_ids)
    assert started.issuperset(e.terminating_flow_ids)
    started.update(e.flow_ids)
    ended.update(e.terminating_flow_ids)
assert not any(open_slices.values()) and ended == started
print(events, len(ended), values)
