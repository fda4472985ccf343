package floodmark.oracle;

/** What the scripted user function raises when the script says so. */
final class CallbackRaised extends Exception {
    private static final long serialVersionUID = 1L;

    CallbackRaised(String message) {
        super(message);
    }
}
