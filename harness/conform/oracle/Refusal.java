package floodmark.oracle;

/** A line that is answered with an error and changes nothing. Without a stack trace, since it is an ordinary answer. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1L;

    final String code;

    Refusal(String code, String message) {
        super(message, null, false, false);
        this.code = code;
    }
}
