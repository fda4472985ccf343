package floodmark.oracle;

import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.StreamTaskActionExecutor;
import org.apache.flink.streaming.runtime.tasks.mailbox.MailboxExecutorImpl;
import org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl;
import org.apache.flink.util.function.ThrowingRunnable;

/**
 * One life of the operator, from {@code open} to {@code close}: its mailbox, its clock, and its waits.
 *
 * <p>The operator waits by yielding. Our yield runs a waiting mail; if there is none, it ends the command, reads the
 * next one and performs it there, inside the operator's call. So one thread is enough, and what the operator does
 * after its wait happens at the same point as in a real task.
 *
 * <p>Invariant: mails run one by one, in the order posted, and never after the task has failed.
 */
final class Run implements MailboxExecutor {
    /** The phases of an open operator. */
    enum Phase {
        OPEN,
        BLOCKED,
        DRAINING,
        ENDED,
        FAILED
    }

    /** The source of commands while the operator waits. */
    interface Ear {
        /** The next allowed command; null at the end of the input. */
        Command next();
    }

    /** A call into the operator. */
    private interface Entry {
        void run() throws Exception;
    }

    private static final int PRIORITY = 0;
    private static final OperatorID SOURCE = new OperatorID();

    private final Events events;
    private final Ear ear;
    private final TaskMailboxImpl mailbox = new TaskMailboxImpl(Thread.currentThread());
    private final MailboxExecutor executor =
            new MailboxExecutorImpl(mailbox, PRIORITY, StreamTaskActionExecutor.IMMEDIATE);
    private final VirtualTime time;
    private final ScriptedFunction function;
    private final GenuineTask task;
    private final Deque<Long> dueSnapshots = new ArrayDeque<>();
    private Phase phase = Phase.OPEN;
    private boolean draining;
    private boolean held;

    Run(Command open, Events events, Ear ear) throws Exception {
        this.events = events;
        this.ear = ear;
        time = new VirtualTime(executor, open.number);
        function = new ScriptedFunction(open.config, events);
        task = new GenuineTask(open.config, open.restore, function, this, time, new Emissions(events), this::fail);
    }

    Phase phase() {
        return phase;
    }

    long now() {
        return time.now();
    }

    boolean hasMade(long call) {
        return function.hasMade(call);
    }

    // ----------------------------------------------------------------------------------------- commands

    /** Perform a command that comes while the operator does not wait, then run the mailbox. */
    void perform(Command command) {
        held = command.hold;
        switch (command.kind) {
            case OPEN -> enter(task.operator::open);
            case ELEMENT -> enter(() -> task.operator.processElement(record(command)));
            case WATERMARK -> enter(() -> task.operator.processWatermark(new Watermark(command.number)));
            case MARKER -> enter(() -> task.operator.processLatencyMarker(marker(command.number)));
            case NOTIFY -> enter(() -> tell(command));
            case SNAPSHOT -> takeSnapshot(command.number);
            case END_INPUT -> endInput();
            default -> performAnyTime(command);
        }
        settle();
    }

    /** Commands that are also allowed while the operator waits. */
    private void performAnyTime(Command command) {
        switch (command.kind) {
            case COMPLETE -> function.complete(command.number, command.results);
            case FAIL -> function.fail(command.number, command.text);
            case ADVANCE -> advance(command.number);
            case SNAPSHOT -> dueSnapshots.add(command.number);
            case STATS ->
                    events.stats(
                            Inside.queued(task.operator), function.running(), time.waiting(), mailbox.size(), now());
            case CLOSE -> throw new Unwind(Unwind.Cause.CLOSE);
            default -> throw new IllegalStateException("out of order: " + command.kind);
        }
    }

    private void advance(long to) {
        time.aimAt(to);
        if (held) {
            time.leap();
        } else {
            // The first step belongs to the command: waiting mails run at that instant, before its timers.
            time.step();
        }
    }

    private void tell(Command command) throws Exception {
        if (command.text.equals("complete")) {
            task.operator.notifyCheckpointComplete(command.number);
        } else {
            task.operator.notifyCheckpointAborted(command.number);
        }
    }

    private void endInput() {
        draining = true;
        enter(task.operator::endInput);
        phase = Phase.ENDED;
        events.ended();
        time.forgetTimers();
        takeDueSnapshots();
    }

    /** Call the operator; it may wait inside. Snapshots requested during the wait are taken right after it. */
    private void enter(Entry entry) {
        try {
            entry.run();
        } catch (Exception | AssertionError error) {
            fail(error);
        }
        leaveIfFailed();
        if (phase == Phase.BLOCKED) {
            phase = Phase.OPEN;
            events.unblocked();
        }
        if (!draining) {
            takeDueSnapshots();
        }
    }

    private void takeDueSnapshots() {
        while (!dueSnapshots.isEmpty()) {
            takeSnapshot(dueSnapshots.remove());
        }
    }

    private void takeSnapshot(long id) {
        try {
            events.snapshot(id, task.snapshot(id, now()));
        } catch (Exception error) {
            fail(error);
            leaveIfFailed();
        }
    }

    /** Release everything; nothing of the operator runs afterwards. */
    void close() {
        int dropped = mailbox.close().size();
        int timers = time.waiting();
        try {
            task.close();
        } catch (Exception error) {
            System.err.println("closing the operator: " + error);
        }
        events.closed(dropped, timers);
    }

    // ------------------------------------------------------------------------------------ mail and time

    /** Run all waiting mails, and let the clock step to its target. */
    private void settle() {
        if (held || phase == Phase.FAILED) {
            return;
        }
        while (runMail() || time.step()) {
            // until there is nothing left to do
        }
        function.sweep();
    }

    private boolean runMail() {
        boolean ran = false;
        try {
            ran = executor.tryYield();
        } catch (Exception | AssertionError error) {
            fail(error);
        }
        leaveIfFailed();
        return ran;
    }

    /** The operator waits for a mail: run one, or read commands until there is one. */
    @Override
    public void yield() {
        leaveIfFailed();
        while (held || !runMail()) {
            if (!held && time.step()) {
                continue;
            }
            sayThatWeWait();
            events.quiet();
            Command command = ear.next();
            if (command == null) {
                throw new Unwind(Unwind.Cause.END_OF_INPUT);
            }
            held = command.hold;
            performAnyTime(command);
            leaveIfFailed();
        }
    }

    private void sayThatWeWait() {
        if (draining) {
            phase = Phase.DRAINING;
        } else if (phase == Phase.OPEN) {
            phase = Phase.BLOCKED;
            events.blocked();
        }
    }

    private void leaveIfFailed() {
        if (phase == Phase.FAILED) {
            throw new Unwind(Unwind.Cause.FAILED);
        }
    }

    /** The task has failed, by an exception or as reported by the operator. Only the first failure counts. */
    private void fail(Throwable error) {
        if (phase != Phase.FAILED) {
            phase = Phase.FAILED;
            events.failed(Failure.code(error), Failure.message(error));
        }
    }

    @Override
    public void execute(
            MailOptions options,
            ThrowingRunnable<? extends Exception> mail,
            String description,
            Object... arguments) {
        executor.execute(options, mail, description, arguments);
    }

    @Override
    public boolean tryYield() {
        return executor.tryYield();
    }

    @Override
    public boolean shouldInterrupt() {
        return executor.shouldInterrupt();
    }

    private static StreamRecord<String> record(Command command) {
        return command.timestamp == null
                ? new StreamRecord<>(command.text)
                : new StreamRecord<>(command.text, command.timestamp);
    }

    private static LatencyMarker marker(long id) {
        return new LatencyMarker(id, SOURCE, 0);
    }
}
