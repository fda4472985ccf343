package floodmark.oracle;

import java.io.Flushable;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Writes the output lines, one event each, in the order in which the events happen.
 *
 * <p>Values are JSON texts already (see {@link ScriptedFunction}) and are written as they are.
 */
final class Events implements Flushable {
    private final JsonGenerator json;

    Events(OutputStream output) throws IOException {
        json = Json.MAPPER.getFactory().createGenerator(output);
        json.setRootValueSeparator(null); // lines end with a newline, also the last one
    }

    /** The fields of one event, without the braces. */
    private interface Fields {
        void write() throws IOException;
    }

    private void event(String name, Fields fields) {
        try {
            json.writeStartObject();
            json.writeStringField("ev", name);
            fields.write();
            json.writeEndObject();
            json.writeRaw('\n');
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void event(String name) {
        event(name, () -> {});
    }

    @Override
    public void flush() throws IOException {
        json.flush();
    }

    void hello(int protocol, String version, List<String> abilities) {
        event("hello", () -> {
            json.writeNumberField("protocol", protocol);
            json.writeStringField("name", "flink");
            json.writeStringField("version", version);
            json.writeArrayFieldStart("abilities");
            for (String ability : abilities) {
                json.writeString(ability);
            }
            json.writeEndArray();
        });
    }

    void quiet() {
        event("quiet");
    }

    void error(Refusal refusal) {
        event("error", () -> {
            json.writeStringField("error", refusal.code);
            json.writeStringField("message", refusal.getMessage());
        });
    }

    void call(long call, String value, int attempt) {
        event("call", () -> {
            json.writeNumberField("call", call);
            raw("value", value);
            json.writeNumberField("attempt", attempt);
        });
    }

    void timeout(String value) {
        event("timeout", () -> raw("value", value));
    }

    void emit(StreamRecord<String> record) {
        event("emit", () -> valueAndTimestamp(record));
    }

    void watermark(long timestamp) {
        event("watermark", () -> json.writeNumberField("ts", timestamp));
    }

    void marker(long id) {
        event("marker", () -> json.writeNumberField("id", id));
    }

    void blocked() {
        event("blocked");
    }

    void unblocked() {
        event("unblocked");
    }

    void ended() {
        event("ended");
    }

    void snapshot(long id, Snapshot snapshot) {
        event("snapshot", () -> {
            json.writeNumberField("id", id);
            json.writeFieldName("state");
            snapshot.writeState(json);
            json.writeArrayFieldStart("elements");
            for (StreamElement element : snapshot.elements) {
                element(element);
            }
            json.writeEndArray();
        });
    }

    void failed(String error, String message) {
        event("failed", () -> {
            json.writeStringField("error", error);
            json.writeStringField("message", message);
        });
    }

    void closed(int droppedMails, int timers) {
        event("closed", () -> {
            json.writeNumberField("dropped_mails", droppedMails);
            json.writeNumberField("timers", timers);
        });
    }

    void stats(int queue, int callsRunning, int timers, int mails, long now) {
        event("stats", () -> {
            json.writeNumberField("queue", queue);
            json.writeNumberField("calls_running", callsRunning);
            json.writeNumberField("timers", timers);
            json.writeNumberField("mails", mails);
            json.writeNumberField("now", now);
        });
    }

    private void element(StreamElement element) throws IOException {
        json.writeStartObject();
        if (element.isRecord()) {
            valueAndTimestamp(element.asRecord());
        } else {
            json.writeNumberField("watermark", element.asWatermark().getTimestamp());
        }
        json.writeEndObject();
    }

    private void valueAndTimestamp(StreamRecord<String> record) throws IOException {
        raw("value", record.getValue());
        if (record.hasTimestamp()) {
            json.writeNumberField("ts", record.getTimestamp());
        } else {
            json.writeNullField("ts");
        }
    }

    private void raw(String field, String text) throws IOException {
        json.writeFieldName(field);
        json.writeRawValue(text);
    }
}
