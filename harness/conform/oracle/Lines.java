package floodmark.oracle;

import java.io.ByteArrayOutputStream;
import java.io.Flushable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Reads the input lines.
 *
 * <p>Invariant: output is flushed exactly when we are about to wait for input. So a sender that waits for an answer
 * gets it, and a hundred commands sent at once cost one flush.
 */
final class Lines {
    /** Longer lines are discarded while they are read, so that no sender can fill the memory. */
    static final int LONGEST_BYTES = 32 * 1024 * 1024;

    private final InputStream input;
    private final Flushable answers;
    private final byte[] buffer = new byte[1 << 16];
    private int from;
    private int to;

    Lines(InputStream input, Flushable answers) {
        this.input = input;
        this.answers = answers;
    }

    /** The next line without its end, or null at the end of the input; a last line may lack its newline. */
    String next() throws IOException, Refusal {
        ByteArrayOutputStream line = new ByteArrayOutputStream(256);
        boolean started = false;
        boolean tooLong = false;
        while (fill()) {
            started = true;
            int end = newline();
            if (line.size() + (end - from) > LONGEST_BYTES) {
                tooLong = true;
                line.reset();
            } else if (!tooLong) {
                line.write(buffer, from, end - from);
            }
            boolean whole = end < to;
            from = whole ? end + 1 : end;
            if (whole) {
                break;
            }
        }
        if (!started) {
            return null;
        }
        if (tooLong) {
            throw new Refusal("bad-argument", "the line is longer than " + LONGEST_BYTES + " bytes");
        }
        return decode(line.toByteArray());
    }

    /** Refill the buffer; returns whether there is a byte to read. */
    private boolean fill() throws IOException {
        if (from < to) {
            return true;
        }
        answers.flush();
        from = 0;
        to = Math.max(0, input.read(buffer));
        return to > 0;
    }

    private int newline() {
        int at = from;
        while (at < to && buffer[at] != '\n') {
            at++;
        }
        return at;
    }

    private static String decode(byte[] line) throws Refusal {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line)).toString();
        } catch (CharacterCodingException error) {
            throw new Refusal("not-json", "the line is not UTF-8");
        }
    }
}
