package floodmark.oracle;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorV2;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.OutputTag;

/**
 * Answers scripts of watermarks and statuses of several inputs with what Flink's own classes emit: a second main
 * class beside {@link FlinkSut}.
 *
 * <p>A line is {@code {"of": "operator" or "valve", "inputs": 3, "script": [[input, what], ...]}}, where what is a
 * watermark's timestamp, {@code "idle"} or {@code "active"}. The answer is a list with one list for each step: what
 * was emitted, a timestamp or a status. "operator" is an AbstractStreamOperatorV2 with its combined watermark status,
 * "valve" a StatusWatermarkValve.
 */
public final class SeveralInputs {
    private SeveralInputs() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers =
                new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers goes to standard output
        FlinkSut.keepLoggingQuiet();
        Lines lines = new Lines(new FileInputStream(FileDescriptor.in), answers::flush);
        for (String line = lines.next(); line != null; line = lines.next()) {
            answers.println(Json.text(answer(Json.object(line))));
        }
        answers.flush();
    }

    private static ArrayNode answer(JsonNode question) throws Exception {
        Emitted emitted = new Emitted();
        int inputs = question.get("inputs").intValue();
        Receiver receiver =
                switch (question.get("of").textValue()) {
                    case "operator" -> new Operator(emitted, inputs);
                    case "valve" -> new Valve(emitted, inputs);
                    default -> throw new IllegalArgumentException("`of` is neither operator nor valve");
                };
        ArrayNode steps = Json.MAPPER.createArrayNode();
        for (JsonNode step : question.get("script")) {
            emitted.now = steps.addArray();
            int input = step.get(0).intValue();
            JsonNode what = step.get(1);
            if (what.isIntegralNumber()) {
                receiver.watermark(new Watermark(what.longValue()), input);
            } else {
                boolean idle = what.textValue().equals("idle");
                receiver.status(idle ? WatermarkStatus.IDLE : WatermarkStatus.ACTIVE, input);
            }
        }
        return steps;
    }

    /** What gets a script: inputs count from 0. */
    private interface Receiver {
        void watermark(Watermark watermark, int input) throws Exception;

        void status(WatermarkStatus status, int input) throws Exception;
    }

    private static final class Valve implements Receiver {
        private final StatusWatermarkValve valve;
        private final Emitted emitted;

        Valve(Emitted emitted, int inputs) {
            this.emitted = emitted;
            valve = new StatusWatermarkValve(inputs);
        }

        @Override
        public void watermark(Watermark watermark, int input) throws Exception {
            valve.inputWatermark(watermark, input, emitted);
        }

        @Override
        public void status(WatermarkStatus status, int input) throws Exception {
            valve.inputWatermarkStatus(status, input, emitted);
        }
    }

    /** A genuine operator without functions; V2 counts its inputs from 1. */
    private static final class Operator extends AbstractStreamOperatorV2<String> implements Receiver {
        Operator(Emitted emitted, int inputs) throws Exception {
            super(parameters(emitted), inputs);
        }

        private static StreamOperatorParameters<String> parameters(Emitted emitted) throws Exception {
            return GenuineTask.parameters(emitted);
        }

        @Override
        public void watermark(Watermark watermark, int input) throws Exception {
            reportWatermark(watermark, input + 1);
        }

        @Override
        public void status(WatermarkStatus status, int input) throws Exception {
            processWatermarkStatus(status, input + 1);
        }
    }

    /** Both kinds of output; writes what is emitted into the present step's list. */
    private static final class Emitted implements Output<StreamRecord<String>>, DataOutput<String> {
        private ArrayNode now;

        @Override
        public void emitWatermark(Watermark watermark) {
            now.add(watermark.getTimestamp());
        }

        @Override
        public void emitWatermarkStatus(WatermarkStatus status) {
            now.add(status.isIdle() ? "idle" : "active");
        }

        @Override
        public void emitWatermark(WatermarkEvent watermark) {
            throw new UnsupportedOperationException("no generalised watermark was given");
        }

        @Override
        public void emitRecord(StreamRecord<String> record) {
            throw new UnsupportedOperationException("no record was given");
        }

        @Override
        public void collect(StreamRecord<String> record) {
            throw new UnsupportedOperationException("no record was given");
        }

        @Override
        public <X> void collect(OutputTag<X> tag, StreamRecord<X> record) {
            throw new UnsupportedOperationException("no record was given");
        }

        @Override
        public void emitLatencyMarker(LatencyMarker marker) {
            throw new UnsupportedOperationException("no marker was given");
        }

        @Override
        public void emitRecordAttributes(RecordAttributes attributes) {
            throw new UnsupportedOperationException("no attributes were given");
        }

        @Override
        public void close() {
            // nothing was opened
        }
    }
}
