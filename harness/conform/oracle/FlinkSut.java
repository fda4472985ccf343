package floodmark.oracle;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.slf4j.LoggerFactory;

/**
 * Flink's own AsyncWaitOperator as a system under test: it speaks `sut-protocol.md` on standard input and
 * output, one JSON object a line, in virtual time.
 *
 * <p>This class reads commands and refuses those that are not allowed now; {@link Run} plays the task.
 * Invariant: each line is answered by exactly one {@code quiet}; a refused command changes nothing.
 */
public final class FlinkSut {
    private static final int PROTOCOL = 1;
    private static final List<String> ABILITIES =
            List.of("ordered", "unordered", "retry", "snapshot", "marker", "flink-profile");

    private static final Set<Command.Kind> WHILE_WAITING =
            EnumSet.of(
                    Command.Kind.COMPLETE,
                    Command.Kind.FAIL,
                    Command.Kind.ADVANCE,
                    Command.Kind.SNAPSHOT,
                    Command.Kind.CLOSE,
                    Command.Kind.STATS);

    private final Lines lines;
    private final Events events;
    private boolean greeted;

    /** The open operator, or null. */
    private Run run;

    private FlinkSut(Lines lines, Events events) {
        this.lines = lines;
        this.events = events;
    }

    public static void main(String[] arguments) throws IOException {
        OutputStream output = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // nothing but events goes to standard output
        keepLoggingQuiet();
        Events events = new Events(output);
        try {
            new FlinkSut(new Lines(new FileInputStream(FileDescriptor.in), events), events).converse();
        } finally {
            events.flush(); // also the events before an internal error
        }
    }

    /** Flink ships slf4j without a logger; slf4j would print a warning at each start. */
    static void keepLoggingQuiet() {
        PrintStream errors = System.err;
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        LoggerFactory.getILoggerFactory();
        System.setErr(errors);
    }

    private void converse() {
        for (Command command = next(); command != null; command = next()) {
            try {
                perform(command);
            } catch (Refusal refusal) {
                events.error(refusal);
            } catch (Unwind left) {
                if (left.cause == Unwind.Cause.END_OF_INPUT) {
                    return;
                }
                if (left.cause == Unwind.Cause.CLOSE) {
                    run.close();
                    run = null;
                }
            }
            events.quiet();
        }
    }

    private void perform(Command command) throws Refusal {
        switch (command.kind) {
            case HELLO -> hello(command);
            case OPEN -> open(command);
            default -> run.perform(command);
        }
    }

    private void hello(Command command) throws Refusal {
        if (command.number != PROTOCOL) {
            throw new Refusal("unsupported", "this program speaks protocol " + PROTOCOL);
        }
        greeted = true;
        events.hello(PROTOCOL, EnvironmentInformation.getVersion(), ABILITIES);
    }

    private void open(Command command) throws Refusal {
        try {
            run = new Run(command, events, this::next);
        } catch (Refusal refusal) {
            throw refusal;
        } catch (Exception error) {
            throw new IllegalStateException("the genuine operator could not be built", error);
        }
        run.perform(command);
    }

    /** The next allowed command; refuses others on the way. Null at the end of the input. */
    private Command next() {
        while (true) {
            try {
                String line = lines.next();
                if (line == null) {
                    return null;
                }
                Command command = Command.of(line);
                refuseIfOutOfOrder(command);
                return command;
            } catch (Refusal refusal) {
                events.error(refusal);
                events.quiet();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    private void refuseIfOutOfOrder(Command command) throws Refusal {
        if (!inOrder(command.kind)) {
            throw new Refusal("bad-state", "`" + command.kind + "` is out of order: " + state());
        }
        switch (command.kind) {
            case STATUS -> throw new Refusal("unsupported", "`status` is not claimed: this Flink forwards it at once");
            case COMPLETE, FAIL -> {
                if (!run.hasMade(command.number)) {
                    throw new Refusal("unknown-call", "no call has had the number " + command.number);
                }
            }
            case ADVANCE -> {
                if (command.number < run.now()) {
                    throw new Refusal("bad-argument", "`to` lies before the present instant " + run.now());
                }
            }
            default -> {}
        }
    }

    private boolean inOrder(Command.Kind kind) {
        if (!greeted || kind == Command.Kind.HELLO) {
            return !greeted && kind == Command.Kind.HELLO;
        }
        if (run == null || kind == Command.Kind.OPEN) {
            return run == null && kind == Command.Kind.OPEN;
        }
        return switch (run.phase()) {
            case OPEN -> true;
            case BLOCKED, DRAINING -> WHILE_WAITING.contains(kind);
            case ENDED -> WHILE_WAITING.contains(kind) || kind == Command.Kind.NOTIFY;
            case FAILED -> kind == Command.Kind.STATS || kind == Command.Kind.CLOSE;
        };
    }

    private String state() {
        if (!greeted) {
            return "`hello` comes first";
        }
        return run == null ? "nothing is open" : "the operator is " + run.phase();
    }
}
