package alluvium;

import java.util.Objects;

/**
 * Options for opening a store with merge operators and compaction filters of the program. Without
 * them, a text is enough.
 */
public final class Options extends Handle implements AutoCloseable {
  /**
   * Creates options from a text in the syntax of the command line, such as {@code "--memory 64M
   * --durability disk"}.
   */
  public Options(String text) {
    super(created(text), Library.OPTIONS_FREE);
  }

  private static long created(String text) {
    Library.require();
    byte[] bytes = Stage.text(text);
    Stage stage = Stage.of(Stage.length(bytes));
    stage.check(Library.call(Library.OPTIONS_CREATE, stage.optional(bytes), stage.result()));
    return stage.first();
  }

  /**
   * Registers a merge operator, to which keyspaces refer by its name. If a keyspace uses it, the
   * store cannot be opened without it.
   */
  public Options mergeOperator(String name, MergeOperator operator) {
    Objects.requireNonNull(operator, "operator");
    byte[] bytes = Stage.text(name);
    Stage stage = Stage.of(40 + Stage.length(bytes));
    long options = enter();
    try {
      long merge = stage.word(Callbacks.register(operator));
      stage.word(Callbacks.Function.MERGE.address());
      stage.word(Callbacks.Function.CHECK.address());
      stage.word(Callbacks.Function.FREE.address());
      stage.word(operator.isCommutative() ? 1 : 0);
      stage.check(
          Library.call(Library.OPTIONS_MERGE_OPERATOR, options, stage.optional(bytes), merge));
    } finally {
      leave();
    }
    return this;
  }

  /**
   * Registers a compaction filter, to which keyspaces refer by its name. If a keyspace uses it, the
   * store cannot be opened without it.
   */
  public Options compactionFilter(String name, CompactionFilter filter) {
    Objects.requireNonNull(filter, "filter");
    byte[] bytes = Stage.text(name);
    Stage stage = Stage.of(24 + Stage.length(bytes));
    long options = enter();
    try {
      long decide = stage.word(Callbacks.register(filter));
      stage.word(Callbacks.Function.DECIDE.address());
      stage.word(Callbacks.Function.FREE.address());
      stage.check(
          Library.call(Library.OPTIONS_COMPACTION_FILTER, options, stage.optional(bytes), decide));
    } finally {
      leave();
    }
    return this;
  }

  /** Frees the options. Stores that were opened with them are not affected. */
  @Override
  public void close() {
    free();
  }
}
