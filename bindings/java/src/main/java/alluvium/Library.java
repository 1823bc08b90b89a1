package alluvium;

import java.nio.charset.StandardCharsets;

/** The functions of liballuvium. */
final class Library {
  private static final Bridge BRIDGE;
  private static final String FAILURE;

  static {
    Bridge bridge = null;
    String failure = null;
    try {
      bridge = LibraryFiles.load();
    } catch (LinkageError | RuntimeException refusal) {
      failure = refusal.getMessage();
    }
    BRIDGE = bridge;
    FAILURE = failure;
  }

  static final long ERROR_KIND = symbol("alluvium_error_kind");
  static final long ERROR_KIND_NAME = symbol("alluvium_error_kind_name");
  static final long ERROR_TEXT = symbol("alluvium_error_text");
  static final long ERROR_FREE = symbol("alluvium_error_free");
  static final long VALUE_DATA = symbol("alluvium_value_data");
  static final long VALUE_FREE = symbol("alluvium_value_free");
  static final long OPTIONS_CREATE = symbol("alluvium_options_create");
  static final long OPTIONS_MERGE_OPERATOR = symbol("alluvium_options_merge_operator");
  static final long OPTIONS_COMPACTION_FILTER = symbol("alluvium_options_compaction_filter");
  static final long OPTIONS_FREE = symbol("alluvium_options_free");
  static final long BUFFER_APPEND = symbol("alluvium_buffer_append");
  static final long VERSION = symbol("alluvium_version");
  static final long OPEN = symbol("alluvium_open");
  static final long OPEN_WITH = symbol("alluvium_open_with");
  static final long CLOSE = symbol("alluvium_close");
  static final long STORE_FREE = symbol("alluvium_store_free");
  static final long WRITE = symbol("alluvium_write");
  static final long SYNC = symbol("alluvium_sync");
  static final long CHECKPOINT = symbol("alluvium_checkpoint");
  static final long COMPACT = symbol("alluvium_compact");
  static final long CHECK = symbol("alluvium_check");
  static final long STATS = symbol("alluvium_stats");
  static final long KEYSPACES = symbol("alluvium_keyspaces");
  static final long BACKUP = symbol("alluvium_backup");
  static final long RESTORE = symbol("alluvium_restore");
  static final long REPAIR = symbol("alluvium_repair");
  static final long KEYSPACE_OPEN = symbol("alluvium_keyspace_open");
  static final long KEYSPACE_EXISTING = symbol("alluvium_keyspace_existing");
  static final long KEYSPACE_FREE = symbol("alluvium_keyspace_free");
  static final long KEYSPACE_DROP = symbol("alluvium_keyspace_drop");
  static final long KEYSPACE_RENAME = symbol("alluvium_keyspace_rename");
  static final long APPROXIMATE_COUNT = symbol("alluvium_approximate_count");
  static final long GET = symbol("alluvium_get");
  static final long GET_INTO = symbol("alluvium_get_into");
  static final long CONTAINS = symbol("alluvium_contains");
  static final long MULTI_GET = symbol("alluvium_multi_get");
  static final long PUT = symbol("alluvium_put");
  static final long DELETE = symbol("alluvium_delete");
  static final long TAKE = symbol("alluvium_take");
  static final long DELETE_RANGE = symbol("alluvium_delete_range");
  static final long MERGE = symbol("alluvium_merge");
  static final long COMPARE_AND_SET = symbol("alluvium_compare_and_set");
  static final long BATCH_CREATE = symbol("alluvium_batch_create");
  static final long BATCH_PUT = symbol("alluvium_batch_put");
  static final long BATCH_PUT_PAGE = symbol("alluvium_batch_put_page");
  static final long BATCH_DELETE = symbol("alluvium_batch_delete");
  static final long BATCH_DELETE_RANGE = symbol("alluvium_batch_delete_range");
  static final long BATCH_MERGE = symbol("alluvium_batch_merge");
  static final long BATCH_COUNT = symbol("alluvium_batch_count");
  static final long BATCH_CLEAR = symbol("alluvium_batch_clear");
  static final long BATCH_FREE = symbol("alluvium_batch_free");
  static final long INGEST_BEGIN = symbol("alluvium_ingest_begin");
  static final long INGEST_PUT_PAGE = symbol("alluvium_ingest_put_page");
  static final long INGEST_FINISH = symbol("alluvium_ingest_finish");
  static final long INGEST_FREE = symbol("alluvium_ingest_free");
  static final long SNAPSHOT_CREATE = symbol("alluvium_snapshot_create");
  static final long SNAPSHOT_OPEN = symbol("alluvium_snapshot_open");
  static final long SNAPSHOT_REMOVE = symbol("alluvium_snapshot_remove");
  static final long SNAPSHOT_GET = symbol("alluvium_snapshot_get");
  static final long SNAPSHOT_FREE = symbol("alluvium_snapshot_free");
  static final long ITERATOR_CREATE = symbol("alluvium_iterator_create");
  static final long TRANSACTION_ITERATOR = symbol("alluvium_transaction_iterator");
  static final long ITERATOR_PAGE = symbol("alluvium_iterator_page");
  static final long ITERATOR_SEEK = symbol("alluvium_iterator_seek");
  static final long ITERATOR_FREE = symbol("alluvium_iterator_free");
  static final long TRANSACTION_BEGIN = symbol("alluvium_transaction_begin");
  static final long TRANSACTION_GET = symbol("alluvium_transaction_get");
  static final long TRANSACTION_PUT = symbol("alluvium_transaction_put");
  static final long TRANSACTION_DELETE = symbol("alluvium_transaction_delete");
  static final long TRANSACTION_DELETE_RANGE = symbol("alluvium_transaction_delete_range");
  static final long TRANSACTION_MERGE = symbol("alluvium_transaction_merge");
  static final long TRANSACTION_DEPEND_ON_RANGE = symbol("alluvium_transaction_depend_on_range");
  static final long TRANSACTION_SAVEPOINT = symbol("alluvium_transaction_savepoint");
  static final long TRANSACTION_ROLLBACK_TO = symbol("alluvium_transaction_rollback_to");
  static final long TRANSACTION_RELEASE = symbol("alluvium_transaction_release");
  static final long TRANSACTION_COMMIT = symbol("alluvium_transaction_commit");
  static final long TRANSACTION_ROLLBACK = symbol("alluvium_transaction_rollback");
  static final long TRANSACTION_FREE = symbol("alluvium_transaction_free");

  private Library() {}

  private static long symbol(String name) {
    return BRIDGE == null ? 0 : BRIDGE.symbol(name);
  }

  /** Throws an error that names what was looked for, unless the library is loaded. */
  static void require() {
    if (BRIDGE == null) {
      throw new UnsatisfiedLinkError(FAILURE);
    }
  }

  static Bridge bridge() {
    require();
    return BRIDGE;
  }

  static long call(long function, long a) {
    return BRIDGE.call(function, a, 0, 0, 0, 0, 0, 0, 0);
  }

  static long call(long function, long a, long b) {
    return BRIDGE.call(function, a, b, 0, 0, 0, 0, 0, 0);
  }

  static long call(long function, long a, long b, long c) {
    return BRIDGE.call(function, a, b, c, 0, 0, 0, 0, 0);
  }

  static long call(long function, long a, long b, long c, long d) {
    return BRIDGE.call(function, a, b, c, d, 0, 0, 0, 0);
  }

  static long call(long function, long a, long b, long c, long d, long e) {
    return BRIDGE.call(function, a, b, c, d, e, 0, 0, 0);
  }

  static long call(long function, long a, long b, long c, long d, long e, long f) {
    return BRIDGE.call(function, a, b, c, d, e, f, 0, 0);
  }

  static long call(long function, long a, long b, long c, long d, long e, long f, long g) {
    return BRIDGE.call(function, a, b, c, d, e, f, g, 0);
  }

  static long call(long function, long a, long b, long c, long d, long e, long f, long g, long h) {
    return BRIDGE.call(function, a, b, c, d, e, f, g, h);
  }

  /** Throws an error that a function has returned, and frees it. */
  static void check(long error) {
    if (error != 0) {
      throw taken(error);
    }
  }

  private static AlluviumException taken(long error) {
    long kind = call(ERROR_KIND, error) & 0xffff_ffffL;
    String label = BRIDGE.text(call(ERROR_KIND_NAME, kind));
    String message = BRIDGE.text(call(ERROR_TEXT, error));
    call(ERROR_FREE, error);
    return AlluviumException.of(Kind.labelled(label), message);
  }

  /** Copies a value of the library, and frees it. The value of an absent key is null. */
  static byte[] take(Stage stage, long value) {
    if (value == 0) {
      return null;
    }
    try {
      long data = call(VALUE_DATA, value, stage.secondResult());
      long length = stage.second();
      if (length > Integer.MAX_VALUE - 8) {
        throw AlluviumException.argument("a value has " + length + " bytes: an array holds less than 2 GiB");
      }
      return length == 0 ? new byte[0] : BRIDGE.copy(data, (int) length);
    } finally {
      call(VALUE_FREE, value);
    }
  }

  static String takeText(Stage stage, long value) {
    return new String(take(stage, value), StandardCharsets.UTF_8);
  }
}
