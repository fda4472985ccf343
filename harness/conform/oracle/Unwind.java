package floodmark.oracle;

/**
 * Unwinds the stack of an operator that waits in its yield: the task has failed, is closed, or the input has ended.
 *
 * <p>An Error, so that Flink's code does not take it for a user exception.
 */
final class Unwind extends Error {
    private static final long serialVersionUID = 1L;

    /** The reason. */
    enum Cause {
        FAILED,
        CLOSE,
        END_OF_INPUT
    }

    final Cause cause;

    Unwind(Cause cause) {
        super(cause.name(), null, false, false);
        this.cause = cause;
    }
}
