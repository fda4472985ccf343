package floodmark.oracle;

import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.OutputTag;

/** The operator's output: writes an event for each element as it is emitted. */
final class Emissions implements Output<StreamRecord<String>> {
    private final Events events;

    Emissions(Events events) {
        this.events = events;
    }

    @Override
    public void collect(StreamRecord<String> record) {
        events.emit(record);
    }

    @Override
    public void emitWatermark(Watermark watermark) {
        events.watermark(watermark.getTimestamp());
    }

    @Override
    public void emitLatencyMarker(LatencyMarker marker) {
        events.marker(marker.getMarkedTime());
    }

    @Override
    public void close() {
        // nothing was opened
    }

    @Override
    public void emitWatermarkStatus(WatermarkStatus status) {
        throw new UnsupportedOperationException("no status was given");
    }

    @Override
    public <X> void collect(OutputTag<X> tag, StreamRecord<X> record) {
        throw new UnsupportedOperationException("the operator has no side outputs");
    }

    @Override
    public void emitRecordAttributes(RecordAttributes attributes) {
        throw new UnsupportedOperationException("no attributes were given");
    }

    // No @Override, for Flink 1.20 does not have it.
    public void emitWatermark(WatermarkEvent watermark) {
        throw new UnsupportedOperationException("no generalised watermark was given");
    }
}
