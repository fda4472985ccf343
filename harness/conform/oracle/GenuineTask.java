package floodmark.oracle;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Consumer;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobInfoImpl;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.TaskInfoImpl;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.accumulators.AccumulatorRegistry;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.externalresource.ExternalResourceInfoProvider;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.state.DefaultOperatorStateBackend;
import org.apache.flink.runtime.state.DefaultOperatorStateBackendBuilder;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;
import org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory;
import org.apache.flink.runtime.taskmanager.TaskManagerRuntimeInfo;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.StreamOperatorStateContext;
import org.apache.flink.streaming.api.operators.StreamTaskStateInitializer;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperator;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperatorFactory;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.OneInputStreamTask;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.CloseableIterable;
import org.apache.flink.util.SimpleUserCodeClassLoader;
import sun.misc.Unsafe;

/**
 * Flink's own AsyncWaitOperator, made by its own factory, with the smallest task around it that it needs:
 * its state is in Flink's operator state backend, and its checkpoints have Flink's bytes.
 *
 * <p>What does not exist here (network, memory, coordinator) throws when used; the operator never uses it.
 */
final class GenuineTask {
    private static final ClassLoader LOADER = GenuineTask.class.getClassLoader();
    private static final int GREATEST_STATE_BYTES = Integer.MAX_VALUE;
    private static final StreamElementSerializer<String> ELEMENTS =
            new StreamElementSerializer<>(StringSerializer.INSTANCE);
    private static final JobID JOB = new JobID();
    private static final StreamConfig CONFIG = streamConfig();
    private static final ExecutionConfig EXECUTION = new ExecutionConfig();

    final AsyncWaitOperator<String, String> operator;

    private final CloseableRegistry closeables = new CloseableRegistry();
    private final DefaultOperatorStateBackend state;
    private final boolean restored;

    /**
     * Builds the operator without running it.
     *
     * @param restore the state of an earlier attempt, or null
     * @param failed gets the failures that the operator reports to its task outside of a call
     */
    GenuineTask(
            OperatorConfig config,
            Snapshot restore,
            ScriptedFunction function,
            MailboxExecutor mailbox,
            ProcessingTimeService time,
            Output<StreamRecord<String>> output,
            Consumer<Throwable> failed)
            throws Exception {
        restored = restore != null;
        state = backend(restore);
        AsyncWaitOperatorFactory<String, String> factory =
                new AsyncWaitOperatorFactory<>(
                        function,
                        config.timeoutMs,
                        config.capacity,
                        config.mode,
                        config.retry);
        factory.setMailboxExecutor(mailbox);
        factory.setProcessingTimeService(time);
        operator =
                factory.createStreamOperator(
                        new StreamOperatorParameters<>(
                                task(failed, closeables), CONFIG, output, () -> time, null, mailbox));
        operator.initializeState(initializer());
    }

    private DefaultOperatorStateBackend backend(Snapshot restore) throws Refusal {
        List<OperatorStateHandle> handles = restore == null ? List.of() : List.of(restore.handle);
        try {
            return new DefaultOperatorStateBackendBuilder(LOADER, EXECUTION, true, handles, closeables).build();
        } catch (Exception error) {
            throw new Refusal("bad-argument", "`restore` is no state of this program: " + error.getMessage());
        }
    }

    Snapshot snapshot(long id, long now) throws Exception {
        OperatorSnapshotFutures written =
                operator.snapshotState(
                        id,
                        now,
                        CheckpointOptions.forCheckpointWithDefaultLocation(),
                        new MemCheckpointStreamFactory(GREATEST_STATE_BYTES));
        // Runs every future, also the empty ones: one that is not run stays registered with the task.
        OperatorStateHandle handle =
                Inside.finalized(written)
                        .getJobManagerOwnedState()
                        .getManagedOperatorState()
                        .iterator()
                        .next();
        byte[] bytes = ((ByteStreamStateHandle) handle.getDelegateStateHandle()).getData();
        List<StreamElement> elements = new ArrayList<>();
        state.getListState(new ListStateDescriptor<>(Snapshot.LIST, elements())).get().forEach(elements::add);
        return new Snapshot(handle, bytes, elements);
    }

    void close() throws Exception {
        operator.close();
        closeables.close();
    }

    private StreamTaskStateInitializer initializer() {
        Map<String, Object> context =
                Map.of(
                        "isRestored", restored,
                        "getRestoredCheckpointId", restored ? OptionalLong.of(1) : OptionalLong.empty(),
                        "operatorStateBackend", state,
                        "rawOperatorStateInputs", CloseableIterable.empty(),
                        "rawKeyedStateInputs", CloseableIterable.empty());
        List<String> none =
                List.of(
                        "keySerializer",
                        "keyedStateBackend",
                        "asyncKeyedStateBackend",
                        "internalTimerServiceManager",
                        "asyncInternalTimerServiceManager");
        StreamOperatorStateContext made = stand(StreamOperatorStateContext.class, context, none, null);
        return stand(
                StreamTaskStateInitializer.class, Map.of("streamOperatorStateContext", made), List.of(), null);
    }

    /** What an operator's constructor needs, for one that gets watermarks and statuses only: it has no state. */
    static StreamOperatorParameters<String> parameters(Output<StreamRecord<String>> output)
            throws ReflectiveOperationException {
        Consumer<Throwable> failed =
                error -> {
                    throw new IllegalStateException(error);
                };
        ProcessingTimeService time = stand(ProcessingTimeService.class, Map.of(), List.of(), null);
        return new StreamOperatorParameters<>(
                task(failed, new CloseableRegistry()), CONFIG, output, () -> time, null, null);
    }

    private static OneInputStreamTask<String, String> task(Consumer<Throwable> failed, CloseableRegistry closeables)
            throws ReflectiveOperationException {
        @SuppressWarnings("unchecked")
        OneInputStreamTask<String, String> task =
                (OneInputStreamTask<String, String>) unsafe().allocateInstance(OneInputStreamTask.class);
        set(task, "environment", environment(failed));
        set(task, "cancelables", closeables);
        set(task, "configuration", CONFIG);
        return task;
    }

    private static Environment environment(Consumer<Throwable> failed) {
        TaskInfo info = new TaskInfoImpl("oracle", 1, 0, 1, 0);
        TaskManagerRuntimeInfo manager =
                stand(
                        TaskManagerRuntimeInfo.class,
                        Map.of("getConfiguration", new Configuration()),
                        List.of(),
                        null);
        Map<String, Object> answers =
                Map.ofEntries(
                        Map.entry("getExecutionConfig", EXECUTION),
                        Map.entry("getTaskInfo", info),
                        Map.entry("getJobInfo", new JobInfoImpl(JOB, "oracle")),
                        Map.entry("getDistributedCacheEntries", Map.of()),
                        Map.entry("getMetricGroup", UnregisteredMetricGroups.createUnregisteredTaskMetricGroup()),
                        Map.entry("getTaskManagerInfo", manager),
                        Map.entry("getTaskConfiguration", new Configuration()),
                        Map.entry("getJobConfiguration", new Configuration()),
                        Map.entry(
                                "getAccumulatorRegistry",
                                new AccumulatorRegistry(JOB, ExecutionAttemptID.randomId())),
                        Map.entry("getUserCodeClassLoader", SimpleUserCodeClassLoader.create(LOADER)),
                        Map.entry(
                                "getExternalResourceInfoProvider",
                                ExternalResourceInfoProvider.NO_EXTERNAL_RESOURCES));
        return stand(Environment.class, answers, List.of(), failed);
    }

    /** A proxy object that returns the given answers, null where allowed, and throws for every other method. */
    private static <T> T stand(
            Class<T> type, Map<String, Object> answers, List<String> none, Consumer<Throwable> failed) {
        return type.cast(
                Proxy.newProxyInstance(
                        LOADER,
                        new Class<?>[] {type},
                        (self, method, arguments) -> {
                            Object answer = answers.get(method.getName());
                            if (answer != null || none.contains(method.getName())) {
                                return answer;
                            }
                            if (failed != null && method.getName().equals("failExternally")) {
                                failed.accept((Throwable) arguments[0]);
                                return null;
                            }
                            throw new UnsupportedOperationException(type.getSimpleName() + "." + method.getName());
                        }));
    }

    private static StreamElementSerializer<String> elements() {
        return ELEMENTS;
    }

    private static StreamConfig streamConfig() {
        StreamConfig config = new StreamConfig(new Configuration());
        config.setupNetworkInputs(StringSerializer.INSTANCE);
        config.setTypeSerializerOut(StringSerializer.INSTANCE);
        config.setOperatorID(new OperatorID());
        config.setOperatorName("async wait operator");
        config.serializeAllConfigs();
        return config;
    }

    private static void set(Object task, String name, Object value) throws ReflectiveOperationException {
        for (Class<?> owner = task.getClass(); owner != null; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    field.set(task, value);
                    return;
                }
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static Unsafe unsafe() throws ReflectiveOperationException {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (Unsafe) field.get(null);
    }
}
