package floodmark.oracle;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;

/**
 * The user function: it reports each call as an event; a later command completes the call.
 *
 * <p>Values are JSON texts in one canonical form, so that Flink's string serializer can carry any of them.
 * Invariant: calls are numbered from 1 without gaps; calls of finished records are forgotten eventually.
 */
final class ScriptedFunction implements AsyncFunction<String, String> {
    private static final long serialVersionUID = 1L;

    /** How many calls are kept before those of finished records are removed for the first time. */
    private static final int SWEEP_AT = 4096;

    private final transient OperatorConfig config;
    private final transient Events events;
    private final transient Map<Long, Call> calls = new LinkedHashMap<>();
    private long made;
    private int sweepAt = SWEEP_AT;

    ScriptedFunction(OperatorConfig config, Events events) {
        this.config = config;
        this.events = events;
    }

    private static final class Call {
        private final ResultFuture<String> future;
        private boolean ended;

        Call(ResultFuture<String> future) {
            this.future = future;
        }
    }

    @Override
    public void asyncInvoke(String value, ResultFuture<String> future) throws CallbackRaised {
        made++;
        events.call(made, value, Inside.attempt(future));
        if (raisesFor(value)) {
            throw new CallbackRaised("the invocation raised, as `invoke_throws` asks");
        }
        calls.put(made, new Call(future));
    }

    private boolean raisesFor(String value) {
        if (config.invokeThrows.isEmpty()) {
            return false;
        }
        JsonNode node = Json.value(value);
        return config.invokeThrows.stream().anyMatch(other -> Json.same(node, other));
    }

    @Override
    public void timeout(String value, ResultFuture<String> future) throws Exception {
        events.timeout(value);
        switch (config.onTimeout) {
            case FAIL -> AsyncFunction.super.timeout(value, future);
            case RESULTS -> future.complete(config.timeoutResults);
            case THROW -> throw new CallbackRaised(config.timeoutError);
            case NOTHING -> {}
        }
    }

    boolean hasMade(long call) {
        return 1 <= call && call <= made;
    }

    void complete(long call, List<String> results) {
        Call ended = end(call);
        if (ended != null) {
            ended.future.complete(results);
        }
    }

    void fail(long call, String error) {
        Call ended = end(call);
        if (ended != null) {
            ended.future.completeExceptionally(new CallFailed(error));
        }
    }

    /** Mark a call as completed and return it; null if it was forgotten. */
    private Call end(long call) {
        Call ended = calls.get(call);
        if (ended != null) {
            ended.ended = true;
        }
        return ended;
    }

    /** Calls without an outcome whose records are not finished. */
    int running() {
        int running = 0;
        for (Call call : calls.values()) {
            running += call.ended || Inside.finished(call.future) ? 0 : 1;
        }
        return running;
    }

    /** Forget the calls of finished records from time to time; call it when no mail waits. */
    void sweep() {
        if (calls.size() < sweepAt) {
            return;
        }
        for (Iterator<Call> kept = calls.values().iterator(); kept.hasNext(); ) {
            if (Inside.finished(kept.next().future)) {
                kept.remove();
            }
        }
        sweepAt = Math.max(SWEEP_AT, 2 * calls.size());
    }
}
