package floodmark.oracle;

/** The error with which a {@code fail} command completes a call. */
final class CallFailed extends Exception {
    private static final long serialVersionUID = 1L;

    CallFailed(String message) {
        super(message);
    }
}
