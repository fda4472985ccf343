package floodmark.oracle;

import java.math.BigInteger;
import java.util.Comparator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.json.JsonWriteFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.json.JsonMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;

/**
 * JSON by Flink's own copy of Jackson.
 *
 * <p>Invariant: a value is written as it was read, however long its numbers are; output is plain ASCII, so half a
 * surrogate pair, which UTF-8 cannot encode, passes too.
 */
final class Json {
    static final ObjectMapper MAPPER =
            JsonMapper.builder()
                    .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                    .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
                    .nodeFactory(JsonNodeFactory.withExactBigDecimals(true))
                    .build();

    private static final BigInteger LEAST = BigInteger.valueOf(Long.MIN_VALUE);
    private static final BigInteger MOST = BigInteger.valueOf(Long.MAX_VALUE);

    private Json() {}

    /** The JSON object of a line. */
    static JsonNode object(String line) throws Refusal {
        JsonNode node;
        try {
            node = MAPPER.readTree(line);
        } catch (NumberFormatException error) {
            throw new Refusal("bad-argument", "beyond what this program reads: " + error.getMessage());
        } catch (JsonProcessingException error) {
            // By its name, for the Jackson of Flink 1.20 has no such limits and no such class.
            if (error.getClass().getSimpleName().equals("StreamConstraintsException")) {
                throw new Refusal("bad-argument", "beyond what this program reads: " + error.getMessage());
            }
            throw new Refusal("not-json", error.getOriginalMessage());
        }
        if (node == null || !node.isObject()) {
            throw new Refusal("not-json", "the line is not a JSON object");
        }
        return node;
    }

    static String text(JsonNode node) {
        try {
            return MAPPER.writeValueAsString(node);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    static JsonNode value(String text) {
        try {
            return MAPPER.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Equality of JSON: 1 and 1.0 are one number. */
    static boolean same(JsonNode one, JsonNode other) {
        return one.equals(SAME_VALUE, other);
    }

    private static final Comparator<JsonNode> SAME_VALUE =
            (one, other) -> {
                if (one.isNumber() && other.isNumber()) {
                    return one.decimalValue().compareTo(other.decimalValue());
                }
                return one.equals(other) ? 0 : 1;
            };

    /** The integer value of a field; `1.0` is not an integer. */
    static long integer(JsonNode node, String field) throws Refusal {
        if (node == null || !node.isIntegralNumber()) {
            throw new Refusal("bad-argument", "`" + field + "` must be an integer");
        }
        BigInteger whole = node.bigIntegerValue();
        if (whole.compareTo(LEAST) < 0 || whole.compareTo(MOST) > 0) {
            throw new Refusal("bad-argument", "`" + field + "` is beyond 64 bits");
        }
        return whole.longValue();
    }
}
