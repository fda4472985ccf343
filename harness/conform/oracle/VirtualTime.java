package floodmark.oracle;

import java.util.Comparator;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.clock.Clock;

/**
 * The task's processing time, which advances only by the script; a timer that falls due becomes a mail.
 *
 * <p>Invariant: the clock never goes back. A posted timer cannot be cancelled, as in the real task, whose timer
 * callback only posts a mail.
 */
final class VirtualTime extends Clock implements ProcessingTimeService {
    private final MailboxExecutor mailbox;
    private final TreeSet<Timer> timers = new TreeSet<>(Timer.ORDER);
    private long now;
    private long target;
    private long registered;

    VirtualTime(MailboxExecutor mailbox, long now) {
        this.mailbox = mailbox;
        this.now = now;
        this.target = now;
    }

    long now() {
        return now;
    }

    /** Timers that have neither fired nor been cancelled. */
    int waiting() {
        return timers.size();
    }

    /** Set the target of the clock; {@link #step} advances it. */
    void aimAt(long instant) {
        target = instant;
    }

    /** Advance to the next instant with a due timer and post its timers; or to the target. */
    boolean step() {
        if (timers.isEmpty() || timers.first().at > target) {
            now = target;
            return false;
        }
        now = Math.max(now, timers.first().at);
        postDue();
        return true;
    }

    /** Advance to the target at once and post every timer that is due by then, in order of time. */
    void leap() {
        now = target;
        postDue();
    }

    private void postDue() {
        while (!timers.isEmpty() && timers.first().at <= now) {
            Timer timer = timers.pollFirst();
            mailbox.execute(() -> timer.callback.onProcessingTime(timer.at), "timer");
        }
    }

    /** No timer fires after the end of the input, as in the real task. */
    void forgetTimers() {
        timers.clear();
    }

    @Override
    public ScheduledFuture<?> registerTimer(long timestamp, ProcessingTimeCallback callback) {
        // The operator adds a delay to the current time; an overflowed sum means "never".
        long at = timestamp < now ? Long.MAX_VALUE : timestamp;
        Timer timer = new Timer(this, at, registered++, callback);
        timers.add(timer);
        return timer;
    }

    @Override
    public Clock getClock() {
        return this;
    }

    @Override
    public long getCurrentProcessingTime() {
        return now;
    }

    @Override
    public long absoluteTimeMillis() {
        return now;
    }

    @Override
    public long relativeTimeMillis() {
        return now;
    }

    @Override
    public long relativeTimeNanos() {
        return now * 1_000_000;
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(ProcessingTimeCallback callback, long delay, long period) {
        throw new UnsupportedOperationException("the operator registers single timers only");
    }

    @Override
    public ScheduledFuture<?> scheduleWithFixedDelay(ProcessingTimeCallback callback, long delay, long period) {
        throw new UnsupportedOperationException("the operator registers single timers only");
    }

    @Override
    public CompletableFuture<Void> quiesce() {
        forgetTimers();
        return CompletableFuture.completedFuture(null);
    }

    /** A registered timer; the operator cancels it through this future. */
    private static final class Timer implements ScheduledFuture<Object> {
        static final Comparator<Timer> ORDER =
                Comparator.comparingLong((Timer timer) -> timer.at).thenComparingLong(timer -> timer.number);

        private final VirtualTime time;
        private final long at;
        private final long number;
        private final ProcessingTimeCallback callback;
        private boolean cancelled;

        Timer(VirtualTime time, long at, long number, ProcessingTimeCallback callback) {
            this.time = time;
            this.at = at;
            this.number = number;
            this.callback = callback;
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            boolean waited = time.timers.remove(this);
            cancelled |= waited;
            return waited;
        }

        @Override
        public boolean isCancelled() {
            return cancelled;
        }

        @Override
        public boolean isDone() {
            return !time.timers.contains(this);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(at - time.now, TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(getDelay(TimeUnit.MILLISECONDS), other.getDelay(TimeUnit.MILLISECONDS));
        }

        @Override
        public Object get() {
            throw new UnsupportedOperationException("nobody waits for a timer in virtual time");
        }

        @Override
        public Object get(long limit, TimeUnit unit) {
            return get();
        }
    }
}
