package floodmark.oracle;

/** A line that is answered with an error: nothing was changed by it. Cheap, for it is a way of answering. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1L;

    final String code;

    Refusal(String code, String message) {
        super(message, null, false, false);
        this.code = code;
    }
}
