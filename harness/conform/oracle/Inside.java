package floodmark.oracle;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFinalizer;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperator;
import org.apache.flink.streaming.api.operators.async.queue.StreamElementQueue;

/**
 * The few private fields of Flink's operator that the counters need, and what its versions name differently.
 *
 * <p>Invariant: they are read, never written.
 */
final class Inside {
    private static final Class<?> HANDLER = named("ResultHandler");
    private static final Class<?> RETRYABLE = named("RetryableResultHandlerDelegator");
    private static final VarHandle QUEUE = field(AsyncWaitOperator.class, "queue", StreamElementQueue.class);
    private static final VarHandle COMPLETED = field(HANDLER, "completed", AtomicBoolean.class);
    private static final VarHandle INNER = field(RETRYABLE, "resultHandler", HANDLER);
    private static final VarHandle ATTEMPTS = field(RETRYABLE, "currentAttempts", int.class);

    private Inside() {}

    /** Admitted elements that are not emitted yet, watermarks included. */
    static int queued(AsyncWaitOperator<String, String> operator) {
        return ((StreamElementQueue<?>) QUEUE.get(operator)).size();
    }

    /** The attempt number of the call that begins now; 1 without retries. */
    static int attempt(ResultFuture<String> future) {
        return RETRYABLE.isInstance(future) ? (int) ATTEMPTS.get(future) : 1;
    }

    /** Whether the record already has its final outcome. */
    static boolean finished(ResultFuture<String> future) {
        Object handler = RETRYABLE.isInstance(future) ? INNER.get(future) : future;
        return ((AtomicBoolean) COMPLETED.get(handler)).get();
    }

    /** The checkpoint's finalizer; up to Flink 2.0 a constructor makes it, later a method. */
    static OperatorSnapshotFinalizer finalized(OperatorSnapshotFutures written) throws Exception {
        Class<OperatorSnapshotFinalizer> kind = OperatorSnapshotFinalizer.class;
        try {
            return (OperatorSnapshotFinalizer)
                    kind.getMethod("create", OperatorSnapshotFutures.class).invoke(null, written);
        } catch (NoSuchMethodException older) {
            return kind.getConstructor(OperatorSnapshotFutures.class).newInstance(written);
        }
    }

    private static Class<?> named(String inner) {
        try {
            return Class.forName(AsyncWaitOperator.class.getName() + "$" + inner);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException("this is not the Flink that the oracle was made for", error);
        }
    }

    private static VarHandle field(Class<?> owner, String name, Class<?> type) {
        try {
            return MethodHandles.privateLookupIn(owner, MethodHandles.lookup()).findVarHandle(owner, name, type);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("this is not the Flink that the oracle was made for", error);
        }
    }
}
