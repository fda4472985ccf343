package org.apache.flink.runtime.event;

/** A class that Flink 1.20 does not have, so that `Emissions` compiles there; nothing makes one. */
public final class WatermarkEvent {
    private WatermarkEvent() {}
}
