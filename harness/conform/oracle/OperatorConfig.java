package floodmark.oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.AsyncDataStream.OutputMode;
import org.apache.flink.streaming.api.functions.async.AsyncRetryStrategy;
import org.apache.flink.streaming.util.retryable.AsyncRetryStrategies;
import org.apache.flink.streaming.util.retryable.AsyncRetryStrategies.ExponentialBackoffDelayRetryStrategyBuilder;
import org.apache.flink.streaming.util.retryable.AsyncRetryStrategies.FixedDelayRetryStrategyBuilder;
import org.apache.flink.streaming.util.retryable.RetryPredicates;

/** The checked {@code config} of an {@code open}, as the arguments of Flink's factory. */
final class OperatorConfig {
    /** What the user function does when a call times out. */
    enum OnTimeout {
        FAIL,
        RESULTS,
        NOTHING,
        THROW
    }

    /**
     * Flink's queues allocate their whole capacity at once, the unordered one in each segment. A capacity that cannot
     * be filled in one process is cut to this; the behaviour is the same until so many elements wait.
     */
    private static final long GREATEST_CAPACITY = 1 << 17;

    private static final Set<String> MODES = Set.of("ordered", "unordered");
    private static final Set<String> PROFILES = Set.of("strict", "flink");
    private static final Set<String> STRATEGIES = Set.of("fixed", "exponential");

    final OutputMode mode;
    final int capacity;
    final long timeoutMs;
    OnTimeout onTimeout = OnTimeout.FAIL;
    List<String> timeoutResults = List.of();
    String timeoutError = "";
    final List<JsonNode> invokeThrows = new ArrayList<>();

    /** A new strategy for each open, because the exponential one keeps its last delay. */
    final AsyncRetryStrategy<String> retry;

    OperatorConfig(Fields fields) throws Refusal {
        mode = fields.word("mode", MODES).equals("ordered") ? OutputMode.ORDERED : OutputMode.UNORDERED;
        capacity = (int) Math.min(fields.integer("capacity", 1), GREATEST_CAPACITY);
        timeoutMs = fields.integer("timeout_ms", 0);
        if (fields.has("on_timeout")) {
            readOnTimeout(fields);
        }
        if (fields.has("invoke_throws")) {
            fields.list("invoke_throws").forEach(invokeThrows::add);
        }
        boolean retries = fields.has("retry") && !fields.any("retry").isNull();
        retry = retries ? strategy(fields.object("retry")) : noRetry();
        boolean strict = !fields.has("profile") || fields.word("profile", PROFILES).equals("strict");
        fields.nothingElse();
        if (retries && timeoutMs == 0) {
            throw new Refusal("bad-argument", "`retry` needs a `timeout_ms` above 0");
        }
        if (retries && strict) {
            throw new Refusal("unsupported", "with `retry` the genuine operator is of profile `flink` only");
        }
    }

    private void readOnTimeout(Fields fields) throws Refusal {
        JsonNode given = fields.any("on_timeout");
        if (given.isTextual()) {
            onTimeout = fields.word("on_timeout", Set.of("fail", "nothing")).equals("fail")
                    ? OnTimeout.FAIL
                    : OnTimeout.NOTHING;
            return;
        }
        Fields answer = fields.object("on_timeout");
        if (answer.has("results")) {
            onTimeout = OnTimeout.RESULTS;
            timeoutResults = Command.texts(answer.list("results"));
        } else {
            onTimeout = OnTimeout.THROW;
            timeoutError = answer.text("throw");
        }
        answer.nothingElse();
    }

    /** The instance that the operator compares with to see that there are no retries. */
    @SuppressWarnings("unchecked")
    private static AsyncRetryStrategy<String> noRetry() {
        return AsyncRetryStrategies.NO_RETRY_STRATEGY;
    }

    private static AsyncRetryStrategy<String> strategy(Fields fields) throws Refusal {
        boolean fixed = fields.word("strategy", STRATEGIES).equals("fixed");
        int most = (int) Math.min(fields.integer("max_retries", 1), Integer.MAX_VALUE - 1);
        boolean empty = false;
        boolean error = false;
        for (JsonNode on : fields.list("on")) {
            empty |= "empty".equals(on.textValue());
            error |= "error".equals(on.textValue());
            if (!"empty".equals(on.textValue()) && !"error".equals(on.textValue())) {
                throw new Refusal("bad-argument", "`on` may hold \"empty\" and \"error\"");
            }
        }
        if (!empty && !error) {
            throw new Refusal("bad-argument", "`on` must hold \"empty\", \"error\" or both");
        }
        AsyncRetryStrategy<String> strategy =
                fixed ? fixed(fields, most, empty, error) : exponential(fields, most, empty, error);
        fields.nothingElse();
        return strategy;
    }

    @SuppressWarnings("unchecked")
    private static AsyncRetryStrategy<String> fixed(Fields fields, int most, boolean empty, boolean error)
            throws Refusal {
        FixedDelayRetryStrategyBuilder<String> builder =
                new FixedDelayRetryStrategyBuilder<>(most, fields.integer("delay_ms", 1));
        if (empty) {
            builder.ifResult(RetryPredicates.EMPTY_RESULT_PREDICATE);
        }
        if (error) {
            builder.ifException(RetryPredicates.HAS_EXCEPTION_PREDICATE);
        }
        return builder.build();
    }

    @SuppressWarnings("unchecked")
    private static AsyncRetryStrategy<String> exponential(Fields fields, int most, boolean empty, boolean error)
            throws Refusal {
        ExponentialBackoffDelayRetryStrategyBuilder<String> builder =
                new ExponentialBackoffDelayRetryStrategyBuilder<>(
                        most,
                        fields.integer("initial_ms", 1),
                        fields.integer("max_ms", 1),
                        fields.positive("multiplier"));
        if (empty) {
            builder.ifResult(RetryPredicates.EMPTY_RESULT_PREDICATE);
        }
        if (error) {
            builder.ifException(RetryPredicates.HAS_EXCEPTION_PREDICATE);
        }
        return builder.build();
    }
}
