package floodmark.oracle;

import java.util.concurrent.TimeoutException;

/** The protocol's code for a failure of the task. */
final class Failure {
    private static final int LONGEST_CHAIN = 20;

    private Failure() {}

    /** The code of the first known cause; `internal` if no cause comes from the script. */
    static String code(Throwable error) {
        int links = 0;
        for (Throwable cause = error; cause != null && links < LONGEST_CHAIN; cause = cause.getCause()) {
            if (cause instanceof CallFailed) {
                return "user-error";
            }
            if (cause instanceof TimeoutException) {
                return "timeout";
            }
            if (cause instanceof CallbackRaised) {
                return "callback-error";
            }
            links++;
        }
        error.printStackTrace();
        return "internal";
    }

    /** The messages of the chain of causes, outermost first. */
    static String message(Throwable error) {
        StringBuilder message = new StringBuilder();
        int links = 0;
        for (Throwable cause = error; cause != null && links < LONGEST_CHAIN; cause = cause.getCause()) {
            message.append(links == 0 ? "" : ": ").append(cause.getMessage());
            links++;
        }
        return message.toString();
    }
}
