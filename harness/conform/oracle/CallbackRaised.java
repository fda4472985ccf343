package floodmark.oracle;

/** The exception that the scripted user function throws when the script says so. */
final class CallbackRaised extends Exception {
    private static final long serialVersionUID = 1L;

    CallbackRaised(String message) {
        super(message);
    }
}
