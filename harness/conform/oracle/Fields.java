package floodmark.oracle;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * The fields of one JSON object, read and checked one by one.
 *
 * <p>Invariant: after {@link #nothingElse} every field was read; unknown and missing fields are refused.
 */
final class Fields {
    private final JsonNode object;
    private final Set<String> taken = new HashSet<>();

    Fields(JsonNode object) {
        this.object = object;
    }

    boolean has(String field) {
        return object.has(field);
    }

    JsonNode any(String field) throws Refusal {
        taken.add(field);
        JsonNode node = object.get(field);
        if (node == null) {
            throw new Refusal("bad-argument", "`" + field + "` is missing");
        }
        return node;
    }

    long integer(String field) throws Refusal {
        return Json.integer(any(field), field);
    }

    Long integerOrNull(String field) throws Refusal {
        return any(field).isNull() ? null : Long.valueOf(integer(field));
    }

    /** An integer of at least {@code least}. */
    long integer(String field, long least) throws Refusal {
        long number = integer(field);
        return require(number >= least, number, "`" + field + "` must be at least " + least);
    }

    double positive(String field) throws Refusal {
        JsonNode node = any(field);
        double number = node.isNumber() ? node.doubleValue() : 0;
        return require(number > 0, number, "`" + field + "` must be a number above 0");
    }

    boolean flag(String field) throws Refusal {
        JsonNode node = any(field);
        return require(node.isBoolean(), node, "`" + field + "` must be true or false").booleanValue();
    }

    String text(String field) throws Refusal {
        JsonNode node = any(field);
        return require(node.isTextual(), node, "`" + field + "` must be a string").textValue();
    }

    JsonNode list(String field) throws Refusal {
        JsonNode node = any(field);
        return require(node.isArray(), node, "`" + field + "` must be a list");
    }

    Fields object(String field) throws Refusal {
        JsonNode node = any(field);
        return new Fields(require(node.isObject(), node, "`" + field + "` must be an object"));
    }

    /** One of the given words. */
    String word(String field, Set<String> words) throws Refusal {
        String word = text(field);
        return require(words.contains(word), word, "`" + field + "` must be one of " + words);
    }

    void nothingElse() throws Refusal {
        if (object.size() == taken.size()) {
            return; // every one that was taken was there
        }
        for (Iterator<String> names = object.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            require(taken.contains(name), name, "unknown field `" + name + "`");
        }
    }

    private static <T> T require(boolean holds, T value, String sentence) throws Refusal {
        if (!holds) {
            throw new Refusal("bad-argument", sentence);
        }
        return value;
    }
}
