/* Merge operators and compaction filters of a program, threads, and wrong arguments. */
#include "alluvium.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
  do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static int freed;

static void require(alluvium_error *error) {
  if (error) {
    printf("%s\n", alluvium_error_text(error));
    exit(1);
  }
}
static int fails(alluvium_error *error, uint32_t kind) {
  int is = alluvium_error_kind(error) == kind;
  alluvium_error_free(error);
  return is;
}
static void shorter(void *context, const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length, alluvium_buffer *result) {
  ++*(int *)context;
  if (a_length <= b_length) alluvium_buffer_append(result, a, a_length);
  else alluvium_buffer_append(result, b, b_length);
}
static int32_t not_empty(void *context, const uint8_t *bytes, size_t length) {
  (void)context, (void)bytes;
  return length == 0 ? 7 : 0;
}
static void count_free(void *context) {
  (void)context;
  freed++;
}
static int32_t decide(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length,
                      uint64_t expires_ms, uint64_t now_ms, alluvium_buffer *replacement) {
  (void)context, (void)value, (void)expires_ms;
  CHECK(now_ms > 1600000000000u && key_length > 0);
  if (key[0] == 'r') return ALLUVIUM_FILTER_REMOVE;
  if (key[0] != 'x') return ALLUVIUM_FILTER_KEEP;
  alluvium_buffer_append(replacement, (const uint8_t *)"new", 3);
  return value_length == 3 ? ALLUVIUM_FILTER_REPLACE : ALLUVIUM_FILTER_KEEP;
}
static int value_is(alluvium_keyspace *keyspace, const char *key, const char *expected) {
  uint8_t buffer[64];
  size_t length;
  require(alluvium_get_into(keyspace, (const uint8_t *)key, strlen(key), buffer, sizeof buffer, &length));
  if (!expected) return length == ALLUVIUM_ABSENT;
  return length == strlen(expected) && memcmp(buffer, expected, length) == 0;
}
static void put(alluvium_keyspace *keyspace, const char *key, const char *value) {
  require(alluvium_put(keyspace, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value), 0));
}
static void operators(void) {
  int calls = 0;
  alluvium_options *options;
  alluvium_store *store;
  alluvium_keyspace *merged, *filtered;
  require(alluvium_options_create("--memory 16M", &options));
  alluvium_merge_operator merge = {&calls, shorter, not_empty, count_free, 1};
  alluvium_compaction_filter filter = {NULL, decide, count_free};
  require(alluvium_options_merge_operator(options, "shorter", &merge));
  require(alluvium_options_compaction_filter(options, "rx", &filter));
  alluvium_merge_operator nothing = {NULL, NULL, NULL, count_free, 0};
  CHECK(fails(alluvium_options_merge_operator(options, "nothing", &nothing), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(freed == 1);
  require(alluvium_open_with(NULL, options, &store));
  alluvium_options_free(options);
  require(alluvium_keyspace_open(store, "m", "--merge-operator shorter", &merged));
  require(alluvium_keyspace_open(store, "f", "--compaction-filter rx", &filtered));
  put(merged, "k", "long");
  require(alluvium_merge(merged, (const uint8_t *)"k", 1, (const uint8_t *)"abc", 3));
  require(alluvium_merge(merged, (const uint8_t *)"k", 1, (const uint8_t *)"longer", 6));
  CHECK(value_is(merged, "k", "abc") && calls > 0);
  CHECK(fails(alluvium_merge(merged, (const uint8_t *)"k", 1, NULL, 0), ALLUVIUM_INVALID_ARGUMENT));
  put(filtered, "r1", "v");
  put(filtered, "x1", "old");
  put(filtered, "x2", "older");
  put(filtered, "k1", "v");
  require(alluvium_compact(store));
  CHECK(value_is(filtered, "r1", NULL) && value_is(filtered, "x1", "new"));
  CHECK(value_is(filtered, "x2", "older") && value_is(filtered, "k1", "v") && value_is(merged, "k", "abc"));
  require(alluvium_close(store, 0));
  alluvium_store_free(store);
  alluvium_keyspace_free(merged);
  CHECK(freed == 1);
  alluvium_keyspace_free(filtered);
  CHECK(freed == 3);
}

static void wrong_arguments(void) {
  alluvium_store *store = (alluvium_store *)1;
  alluvium_value *value = (alluvium_value *)1;
  CHECK(fails(alluvium_open(NULL, "--memory", &store), ALLUVIUM_INVALID_ARGUMENT) && !store);
  CHECK(fails(alluvium_open(NULL, NULL, NULL), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_open("\xff\xfe", NULL, &store), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_get(NULL, NULL, 0, &value), ALLUVIUM_INVALID_ARGUMENT) && !value);
  CHECK(fails(alluvium_close(NULL, 0), ALLUVIUM_INVALID_ARGUMENT));
  require(alluvium_open(NULL, "--memory 16M", &store));
  alluvium_keyspace *keyspace;
  CHECK(fails(alluvium_keyspace_open(store, NULL, NULL, &keyspace), ALLUVIUM_INVALID_ARGUMENT) && !keyspace);
  require(alluvium_keyspace_open(store, "k", NULL, &keyspace));
  CHECK(fails(alluvium_put(keyspace, NULL, 5, NULL, 0, 0), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_put(keyspace, (const uint8_t *)"k", SIZE_MAX, NULL, 0, 0), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_get(keyspace, (const uint8_t *)"k", 1, NULL), ALLUVIUM_INVALID_ARGUMENT));
  require(alluvium_put(keyspace, NULL, 0, NULL, 0, 0));
  int32_t found;
  require(alluvium_contains(keyspace, NULL, 0, &found));
  CHECK(found == 1);
  alluvium_range range = {0};
  alluvium_iterator *iterator;
  range.flags = 1u << 20;
  CHECK(fails(alluvium_iterator_create(keyspace, NULL, &range, &iterator), ALLUVIUM_INVALID_ARGUMENT) && !iterator);
  range.flags = ALLUVIUM_RANGE_PREFIX | ALLUVIUM_RANGE_AFTER_START;
  CHECK(fails(alluvium_iterator_create(keyspace, NULL, &range, &iterator), ALLUVIUM_INVALID_ARGUMENT));
  require(alluvium_iterator_create(keyspace, NULL, NULL, &iterator));
  size_t filled, count;
  CHECK(fails(alluvium_iterator_page(iterator, 2, NULL, 0, &filled, &count), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_iterator_page(iterator, 0, NULL, 9, &filled, &count), ALLUVIUM_INVALID_ARGUMENT));
  require(alluvium_iterator_page(iterator, 0, NULL, 0, &filled, &count));
  CHECK(filled == 8 && count == 0);
  alluvium_batch *batch;
  require(alluvium_batch_create(NULL, &batch));
  CHECK(fails(alluvium_batch_put_page(batch, keyspace, (const uint8_t *)"\5\0\0\0\0\0\0\0k", 9), ALLUVIUM_INVALID_ARGUMENT));
  alluvium_transaction *transaction;
  require(alluvium_transaction_begin(store, NULL, &transaction));
  CHECK(fails(alluvium_transaction_get(transaction, keyspace, NULL, 0, 9, &value), ALLUVIUM_INVALID_ARGUMENT));
  CHECK(fails(alluvium_transaction_rollback_to(transaction, 77), ALLUVIUM_GONE));
  CHECK(alluvium_error_kind(NULL) == 0 && strcmp(alluvium_error_kind_name(0), "ok") == 0);
  CHECK(strcmp(alluvium_error_kind_name(9999), "other") == 0 && alluvium_error_text(NULL)[0] == 0);
  alluvium_value_free(NULL), alluvium_iterator_free(NULL), alluvium_store_free(NULL), alluvium_error_free(NULL);
  alluvium_transaction_free(transaction), alluvium_batch_free(batch), alluvium_iterator_free(iterator);
  alluvium_keyspace_free(keyspace), alluvium_store_free(store);
}

/* A value stays the same while its key is overwritten and its store closed. */
static void pinned_values(void) {
  static uint8_t text[100000];
  alluvium_store *store;
  alluvium_keyspace *keyspace;
  alluvium_value *value;
  size_t length;
  memset(text, 'a', sizeof text);
  require(alluvium_open(NULL, "--memory 16M", &store));
  require(alluvium_keyspace_open(store, "k", NULL, &keyspace));
  require(alluvium_put(keyspace, (const uint8_t *)"k", 1, text, sizeof text, 0));
  require(alluvium_checkpoint(store));
  require(alluvium_get(keyspace, (const uint8_t *)"k", 1, &value));
  put(keyspace, "k", "short");
  require(alluvium_compact(store));
  require(alluvium_close(store, 0));
  alluvium_store_free(store), alluvium_keyspace_free(keyspace);
  const uint8_t *data = alluvium_value_data(value, &length);
  CHECK(length == sizeof text && memcmp(data, text, length) == 0);
  alluvium_value_free(value);
}

static void *work(void *argument) {
  alluvium_keyspace *keyspace = argument;
  for (int n = 0;; n++) {
    char key[32];
    snprintf(key, sizeof key, "%d", n % 1000);
    alluvium_error *error = alluvium_put(keyspace, (const uint8_t *)key, strlen(key), (const uint8_t *)"v", 1, 0);
    alluvium_iterator *iterator = NULL;
    if (!error) error = alluvium_iterator_create(keyspace, NULL, NULL, &iterator);
    uint8_t page[256];
    size_t filled, count = 1;
    while (!error && count > 0) error = alluvium_iterator_page(iterator, ALLUVIUM_FORWARD, page, sizeof page, &filled, &count);
    alluvium_iterator_free(iterator);
    if (error) {
      CHECK(fails(error, ALLUVIUM_CLOSED));
      return NULL;
    }
  }
}
static void threads(void) {
  for (int round = 0; round < 5; round++) {
    alluvium_store *store;
    alluvium_keyspace *keyspace;
    pthread_t all[4];
    require(alluvium_open(NULL, "--memory 16M", &store));
    require(alluvium_keyspace_open(store, "k", NULL, &keyspace));
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&all[i], NULL, work, keyspace) == 0);
    for (int i = 0; i < 300; i++) put(keyspace, "main", "v");
    require(alluvium_close(store, 1));
    for (int i = 0; i < 4; i++) CHECK(pthread_join(all[i], NULL) == 0);
    alluvium_store_free(store);
    alluvium_keyspace_free(keyspace);
  }
}

int main(void) {
  operators();
  wrong_arguments();
  pinned_values();
  threads();
  printf("done\n");
  return 0;
}
