package floodmark.oracle;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.checkpoint.RoundRobinOperatorStateRepartitioner;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Answers with what Flink's own classes give to each subtask after a rescale: a third main class.
 *
 * <p>A line is {@code {"to": 3, "states": {name: ["split", [4, 0, 2]], ...}}}: for each state its mode ({@code split},
 * {@code union}, {@code broadcast}) and how many items each old subtask had. The answer is a list with one object for
 * each new subtask: by name the list of its items, each as {@code [old subtask, place]}. Or a line is {@code {"to": 3,
 * "groups": 8, "keys": [...]}}: the answer is for each key {@code [key group, new subtask]}, then the range of each.
 */
public final class Redistribution {
    private static final Map<String, OperatorStateHandle.Mode> MODES =
            Map.of(
                    "split", OperatorStateHandle.Mode.SPLIT_DISTRIBUTE,
                    "union", OperatorStateHandle.Mode.UNION,
                    "broadcast", OperatorStateHandle.Mode.BROADCAST);

    private Redistribution() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers =
                new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers goes to standard output
        FlinkSut.keepLoggingQuiet();
        Lines lines = new Lines(new FileInputStream(FileDescriptor.in), answers::flush);
        for (String line = lines.next(); line != null; line = lines.next()) {
            JsonNode question = Json.object(line);
            ArrayNode answer = question.has("keys") ? owners(question) : shares(question);
            answers.println(Json.text(answer));
        }
        answers.flush();
    }

    private static ArrayNode shares(JsonNode question) {
        List<List<OperatorStateHandle>> old = old(question.get("states"));
        int to = question.get("to").intValue();
        List<List<OperatorStateHandle>> given =
                RoundRobinOperatorStateRepartitioner.INSTANCE.repartitionState(old, old.size(), to);
        ArrayNode answer = Json.MAPPER.createArrayNode();
        for (List<OperatorStateHandle> handles : given) {
            ObjectNode share = answer.addObject();
            question.get("states").fieldNames().forEachRemaining(share::putArray);
            for (OperatorStateHandle handle : handles) {
                int from = Integer.parseInt(((ByteStreamStateHandle) handle.getDelegateStateHandle()).getHandleName());
                handle.getStateNameToPartitionOffsets()
                        .forEach(
                                (name, meta) -> {
                                    for (long place : meta.getOffsets()) {
                                        ((ArrayNode) share.get(name)).addArray().add(from).add(place);
                                    }
                                });
            }
        }
        return answer;
    }

    /** One handle for each old subtask; an offset is an item's place. */
    private static List<List<OperatorStateHandle>> old(JsonNode states) {
        List<Map<String, OperatorStateHandle.StateMetaInfo>> metas = new ArrayList<>();
        states.fields()
                .forEachRemaining(
                        state -> {
                            JsonNode counts = state.getValue().get(1);
                            for (int subtask = 0; subtask < counts.size(); subtask++) {
                                if (metas.size() <= subtask) {
                                    metas.add(new HashMap<>());
                                }
                                long[] places = new long[counts.get(subtask).intValue()];
                                for (int place = 0; place < places.length; place++) {
                                    places[place] = place;
                                }
                                OperatorStateHandle.Mode mode = MODES.get(state.getValue().get(0).textValue());
                                metas.get(subtask)
                                        .put(
                                                state.getKey(),
                                                new OperatorStateHandle.StateMetaInfo(places, mode));
                            }
                        });
        List<List<OperatorStateHandle>> handles = new ArrayList<>();
        for (int subtask = 0; subtask < metas.size(); subtask++) {
            ByteStreamStateHandle bytes = new ByteStreamStateHandle(Integer.toString(subtask), new byte[0]);
            handles.add(List.of(new OperatorStreamStateHandle(metas.get(subtask), bytes)));
        }
        return handles;
    }

    private static ArrayNode owners(JsonNode question) {
        int groups = question.get("groups").intValue();
        int to = question.get("to").intValue();
        ArrayNode answer = Json.MAPPER.createArrayNode();
        ArrayNode keys = answer.addArray();
        for (JsonNode key : question.get("keys")) {
            Object value = key.isIntegralNumber() ? (Object) key.intValue() : key.textValue();
            keys.addArray()
                    .add(KeyGroupRangeAssignment.assignToKeyGroup(value, groups))
                    .add(KeyGroupRangeAssignment.assignKeyToParallelOperator(value, groups, to));
        }
        ArrayNode ranges = answer.addArray();
        for (int index = 0; index < to; index++) {
            KeyGroupRange range =
                    KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(groups, to, index);
            ranges.addArray().add(range.getStartKeyGroup()).add(range.getEndKeyGroup());
        }
        return answer;
    }
}
