import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/**
 * A local Flink job as a peer: source, orderedWait with a timeout, map, sink, in one JVM that stays up.
 *
 * <p>It prints its versions of Flink and Java first. For each line "records capacity latency_ms" on
 * standard input it runs one job and prints "ok SECONDS" (from the first asyncInvoke to the end of the
 * sink's input, so that neither the start of the JVM nor that of the job counts) or "error WHY".
 * Invariant: it prints "ok" only if the sink got every record once and in order.
 */
public final class FlinkJob {
  private static final long TIMEOUT_MS = 60_000;

  /** State of the running job; its tasks are threads of this JVM, and the main thread reads it after their end. */
  private static volatile long beganNs;
  private static volatile long endedNs;
  private static volatile long arrived;

  public static void main(String[] arguments) throws IOException {
    System.out.println(
        "Flink " + EnvironmentInformation.getVersion() + ", Java " + System.getProperty("java.version"));
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      String[] words = order.trim().split(" ");
      try {
        double seconds =
            run(Long.parseLong(words[0]), Integer.parseInt(words[1]), Long.parseLong(words[2]));
        System.out.println("ok " + seconds);
      } catch (Exception failure) {
        System.out.println("error " + causes(failure));
      }
      System.out.flush();
    }
  }

  private static double run(long records, int capacity, long latencyMs) throws Exception {
    arrived = 0;
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
    AsyncDataStream.orderedWait(
            environment.fromSequence(0, records - 1),
            new Echo(latencyMs),
            TIMEOUT_MS,
            TimeUnit.MILLISECONDS,
            capacity)
        .map(value -> value + 1)
        .returns(Types.LONG)
        .sinkTo(new InOrder());
    environment.execute();
    if (arrived != records) {
      throw new IllegalStateException("the sink got " + arrived + " of " + records + " records");
    }
    return (endedNs - beganNs) / 1e9;
  }

  private static String causes(Throwable failure) {
    StringBuilder told = new StringBuilder();
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      told.append(told.length() == 0 ? "" : "; ").append(cause);
    }
    return told.toString().lines().collect(Collectors.joining(" "));
  }

  /** Answers with its value: at once, or after the latency from one thread of its own. */
  private static final class Echo extends RichAsyncFunction<Long, Long> {
    private final long latencyMs;
    private transient ScheduledExecutorService clock;

    Echo(long latencyMs) {
      this.latencyMs = latencyMs;
    }

    @Override
    public void open(OpenContext context) {
      clock = Executors.newSingleThreadScheduledExecutor();
    }

    @Override
    public void asyncInvoke(Long value, ResultFuture<Long> handle) {
      if (value == 0) {
        beganNs = System.nanoTime();
      }
      if (latencyMs == 0) {
        handle.complete(List.of(value));
      } else {
        clock.schedule(() -> handle.complete(List.of(value)), latencyMs, TimeUnit.MILLISECONDS);
      }
    }

    @Override
    public void close() {
      clock.shutdownNow();
    }
  }

  /** Checks order and completeness record by record; stores no records. */
  private static final class InOrder implements Sink<Long> {
    @Override
    public SinkWriter<Long> createWriter(WriterInitContext context) {
      return new SinkWriter<>() {
        private long last;

        @Override
        public void write(Long value, Context element) throws IOException {
          if (value != last + 1) {
            throw new IOException(value + " came after " + last);
          }
          last = value;
        }

        @Override
        public void flush(boolean endOfInput) {
          arrived = last;
          endedNs = System.nanoTime();
        }

        @Override
        public void close() {}
      };
    }
  }
}
