package floodmark.oracle;

import java.io.IOException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStateHandle.Mode;
import org.apache.flink.runtime.state.OperatorStateHandle.StateMetaInfo;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;

/**
 * The bytes that Flink's state backend wrote at a checkpoint, to JSON and back.
 *
 * <p>Invariant: the bytes are Flink's, and a restore reads them with Flink's code; only the envelope is ours.
 */
final class Snapshot {
    static final String LIST = "_async_wait_operator_state_";

    final OperatorStateHandle handle;

    /** The elements in the order of a replay; empty for a snapshot that came from outside. */
    final List<StreamElement> elements;

    private final byte[] bytes;

    Snapshot(OperatorStateHandle handle, byte[] bytes, List<StreamElement> elements) {
        this.handle = handle;
        this.bytes = bytes;
        this.elements = elements;
    }

    void writeState(JsonGenerator json) throws IOException {
        json.writeStartObject();
        json.writeArrayFieldStart("offsets");
        for (long offset : handle.getStateNameToPartitionOffsets().get(LIST).getOffsets()) {
            json.writeNumber(offset);
        }
        json.writeEndArray();
        json.writeStringField("bytes", Base64.getEncoder().encodeToString(bytes));
        json.writeEndObject();
    }

    static Snapshot from(Fields fields) throws Refusal {
        JsonNode list = fields.list("offsets");
        long[] offsets = new long[list.size()];
        for (int at = 0; at < offsets.length; at++) {
            offsets[at] = Json.integer(list.get(at), "offsets");
        }
        byte[] bytes;
        try {
            bytes = Base64.getDecoder().decode(fields.text("bytes"));
        } catch (IllegalArgumentException error) {
            throw new Refusal("bad-argument", "`bytes` of the state is not base 64");
        }
        fields.nothingElse();
        Map<String, StateMetaInfo> parts = Map.of(LIST, new StateMetaInfo(offsets, Mode.SPLIT_DISTRIBUTE));
        OperatorStateHandle handle =
                new OperatorStreamStateHandle(parts, new ByteStreamStateHandle("snapshot", bytes));
        return new Snapshot(handle, bytes, List.of());
    }
}
