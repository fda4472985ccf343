package floodmark.oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * One command line of the harness, parsed and checked without regard to the state of the conversation.
 *
 * <p>Invariant: a command has exactly the fields of its kind; see {@code sut-protocol.md}.
 */
final class Command {
    /** The values of {@code cmd}. */
    enum Kind {
        HELLO,
        OPEN,
        ELEMENT,
        WATERMARK,
        STATUS,
        MARKER,
        COMPLETE,
        FAIL,
        ADVANCE,
        SNAPSHOT,
        NOTIFY,
        END_INPUT,
        CLOSE,
        STATS;

        static Kind of(String word) throws Refusal {
            for (Kind kind : values()) {
                if (kind.word.equals(word)) {
                    return kind;
                }
            }
            throw new Refusal("unknown-command", "there is no command `" + word + "`");
        }

        private final String word = name().toLowerCase(java.util.Locale.ROOT);
    }

    private static final Set<String> OUTCOMES = Set.of("complete", "abort");

    final Kind kind;
    boolean hold;

    /** The integer field of the command: protocol, now, ts, id, call or to. */
    long number;

    /** An element's timestamp; null if it has none. */
    Long timestamp;

    /** The JSON text of a value, or the string of an error or outcome. */
    String text;

    List<String> results;
    OperatorConfig config;

    /** The state to restore, or null. */
    Snapshot restore;

    private Command(Kind kind) {
        this.kind = kind;
    }

    static Command of(String line) throws Refusal {
        JsonNode object = Json.object(line);
        JsonNode word = object.get("cmd");
        if (word == null || !word.isTextual()) {
            throw new Refusal("unknown-command", "`cmd` must be a string");
        }
        Command command = new Command(Kind.of(word.textValue()));
        Fields fields = new Fields(object);
        fields.any("cmd");
        command.read(fields);
        command.hold = fields.has("hold") && fields.flag("hold");
        fields.nothingElse();
        return command;
    }

    private void read(Fields fields) throws Refusal {
        switch (kind) {
            case HELLO -> number = fields.integer("protocol");
            case OPEN -> {
                config = new OperatorConfig(fields.object("config"));
                number = fields.integer("now");
                restore = fields.any("restore").isNull() ? null : Snapshot.from(fields.object("restore"));
            }
            case ELEMENT -> {
                text = Json.text(fields.any("value"));
                timestamp = fields.integerOrNull("ts");
            }
            case WATERMARK -> number = fields.integer("ts");
            case STATUS -> fields.flag("idle");
            case MARKER, SNAPSHOT -> number = fields.integer("id");
            case COMPLETE -> {
                number = fields.integer("call");
                results = texts(fields.list("results"));
            }
            case FAIL -> {
                number = fields.integer("call");
                text = fields.text("error");
            }
            case ADVANCE -> number = fields.integer("to");
            case NOTIFY -> {
                number = fields.integer("id");
                text = fields.word("outcome", OUTCOMES);
            }
            case END_INPUT, CLOSE, STATS -> {}
        }
    }

    static List<String> texts(JsonNode list) {
        List<String> texts = new ArrayList<>(list.size());
        for (JsonNode node : list) {
            texts.add(Json.text(node));
        }
        return texts;
    }
}
