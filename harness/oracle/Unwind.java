package floodmark.oracle;

/**
 * Leaves an operator that waits inside its yield: the task has failed, is closed, or nobody will speak again.
 *
 * <p>An Error, so that nothing of Flink's takes it for an exception of the user's.
 */
final class Unwind extends Error {
    private static final long serialVersionUID = 1L;

    /** Why the operator is left. */
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
