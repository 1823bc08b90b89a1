/* Random orders of open, read, write, iterate, close, free and use after close: orders SEED STEPS. Prints the number of steps.
 * A crash, a leak or a wrong answer is a failure. */
#include "alluvium.h"
#include <stdio.h>
#include <stdlib.h>

enum { STORES = 3, KEYSPACES = 6, ITERATORS = 8, SNAPSHOTS = 5, TRANSACTIONS = 5, VALUES = 8, BATCHES = 3, INGESTS = 2 };

static alluvium_store *stores[STORES];
static alluvium_keyspace *keyspaces[KEYSPACES];
static alluvium_iterator *iterators[ITERATORS];
static alluvium_snapshot *snapshots[SNAPSHOTS];
static alluvium_transaction *transactions[TRANSACTIONS];
static alluvium_value *values[VALUES];
static alluvium_batch *batches[BATCHES];
static alluvium_ingest *ingests[INGESTS];
static uint64_t state, kinds[64];
static int is_closed[STORES];

static uint32_t draw(uint32_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)(state >> 20) % below;
}
/* Counts what came of a call. Panics are failures, and so are kinds that no order explains. */
static int ended(alluvium_error *error) {
  uint32_t kind = alluvium_error_kind(error);
  kinds[kind < 64 ? kind : 63]++;
  if (kind == ALLUVIUM_PANICKED || kind == ALLUVIUM_CORRUPT || kind == ALLUVIUM_IO || kind >= 26) {
    printf("%s: %s\n", alluvium_error_kind_name(kind), alluvium_error_text(error));
    exit(1);
  }
  alluvium_error_free(error);
  return error == NULL;
}

static const char *const structures[] = {NULL, "--structure levels,k=4", "--structure paged", "--structure volatile,bytes=1M",
                                         "--structure hashed", "--merge-operator append"};

static void store_step(void) {
  uint32_t i = draw(STORES), k = draw(KEYSPACES);
  uint32_t verb = draw(14);
  if (verb == 0 && !stores[i]) ended(alluvium_open(NULL, "--memory 16M --workers 1", &stores[i]));
  if (verb == 1 && draw(20) == 0) is_closed[i] = ended(alluvium_close(stores[i], 0));
  if (verb == 2 && draw(40) == 0) is_closed[i] |= ended(alluvium_close(stores[i], 1));
  if (verb == 3 && draw(is_closed[i] ? 3 : 40) == 0) alluvium_store_free(stores[i]), stores[i] = NULL, is_closed[i] = 0;
  if (verb >= 4 && verb < 8) {
    char name[8];
    uint32_t structure = draw(6);
    snprintf(name, sizeof name, "k%u", structure);
    alluvium_keyspace_free(keyspaces[k]);
    ended(alluvium_keyspace_open(stores[i], name, structures[structure], &keyspaces[k]));
  }
  if (verb == 8 && draw(8) == 0) alluvium_keyspace_free(keyspaces[k]), keyspaces[k] = NULL;
  if (verb == 9 && draw(100) == 0) ended(alluvium_checkpoint(stores[i]));
  if (verb == 10 && draw(20) == 0) {
    alluvium_value *report;
    if (ended(alluvium_stats(stores[i], &report))) alluvium_value_free(report);
  }
  if (verb == 11 && draw(50) == 0) ended(alluvium_keyspace_drop(stores[i], "k1"));
  if (verb == 12) ended(alluvium_write(stores[i], batches[draw(BATCHES)]));
  if (verb == 13) ended(alluvium_sync(stores[i]));
}

static void record_step(void) {
  alluvium_keyspace *keyspace = keyspaces[draw(KEYSPACES)];
  alluvium_batch *batch = batches[draw(BATCHES)];
  uint8_t key[3] = {(uint8_t)('a' + draw(8)), (uint8_t)('a' + draw(8)), 0};
  static const uint8_t text[3000] = {1};
  size_t key_length = draw(3), length = draw(10) ? draw(40) : draw(sizeof text);
  uint32_t v = draw(VALUES);
  int32_t flag;
  switch (draw(11)) {
    case 0: case 1: ended(alluvium_put(keyspace, key, key_length, text, length, draw(20) ? 0 : 1 + draw(9))); break;
    case 2: alluvium_value_free(values[v]); ended(alluvium_get(keyspace, key, key_length, &values[v])); break;
    case 3: alluvium_value_free(values[v]); ended(alluvium_take(keyspace, key, key_length, &values[v])); break;
    case 4: ended(alluvium_delete(keyspace, key, key_length, 0)); break;
    case 5: ended(alluvium_merge(keyspace, key, key_length, text, length % 9)); break;
    case 6: ended(alluvium_compare_and_set(keyspace, key, key_length, NULL, 0, text, length, &flag)); break;
    case 7: ended(alluvium_delete_range(keyspace, key, key_length, (const uint8_t *)"h", 1)); break;
    case 8: ended(alluvium_batch_put(batch, keyspace, key, key_length, text, length, 0)); break;
    case 9: if (draw(4) == 0) alluvium_batch_clear(batch); break;
    case 10:
      alluvium_value_data(values[v], &length);
      for (size_t at = 0; at < length; at++) flag = alluvium_value_data(values[v], NULL)[at];
      break;
  }
}

static void iterator_step(void) {
  uint32_t i = draw(ITERATORS), p = draw(SNAPSHOTS), n = draw(INGESTS);
  alluvium_keyspace *keyspace = keyspaces[draw(KEYSPACES)];
  alluvium_snapshot *snapshot = draw(2) ? NULL : snapshots[p];
  uint8_t page[400], start = (uint8_t)('a' + draw(8));
  size_t filled, count;
  alluvium_range range = {draw(2) ? &start : NULL, 1, NULL, 0, draw(8) ? 0 : ALLUVIUM_RANGE_UNORDERED | ALLUVIUM_RANGE_KEYS_ONLY};
  switch (draw(12)) {
    case 0: case 1: alluvium_iterator_free(iterators[i]); ended(alluvium_iterator_create(keyspace, snapshot, &range, &iterators[i])); break;
    case 2: case 3: case 4: case 5:
      if (ended(alluvium_iterator_page(iterators[i], draw(2), page, draw(sizeof page), &filled, &count)) && count > 0) {
        const uint8_t *at = page, *k, *v;
        size_t k_length, v_length, records = 0;
        while (alluvium_page_next(&at, &filled, &k, &k_length, &v, &v_length)) records++;
        if (records != count || filled != 0) { printf("a page of %zu records has %zu\n", count, records); exit(1); }
      }
      break;
    case 6: ended(alluvium_iterator_seek(iterators[i], &start, 1)); break;
    case 7: if (draw(8) == 0) alluvium_iterator_free(iterators[i]), iterators[i] = NULL; break;
    case 8: alluvium_snapshot_free(snapshots[p]); ended(alluvium_snapshot_create(stores[draw(STORES)], NULL, &snapshots[p])); break;
    case 9: if (draw(4) == 0) alluvium_snapshot_free(snapshots[p]), snapshots[p] = NULL; break;
    case 10: {
      uint32_t v = draw(VALUES);
      alluvium_value_free(values[v]);
      ended(alluvium_snapshot_get(snapshots[p], keyspace, &start, 1, &values[v]));
      break;
    }
    case 11:
      if (draw(4) == 0) alluvium_ingest_free(ingests[n]), ended(alluvium_ingest_begin(keyspace, &ingests[n]));
      filled = alluvium_page_put(page, sizeof page, &start, 1, "v", 1);
      ended(alluvium_ingest_put_page(ingests[n], page, filled));
      uint64_t records;
      if (draw(4) == 0) ended(alluvium_ingest_finish(ingests[n], &records));
      break;
  }
}

static void transaction_step(void) {
  static const char *const options[] = {NULL, "--isolation snapshot"};
  uint32_t t = draw(TRANSACTIONS), i = draw(ITERATORS), v = draw(VALUES);
  alluvium_keyspace *keyspace = keyspaces[draw(KEYSPACES)];
  uint8_t key = (uint8_t)('a' + draw(8));
  uint64_t savepoint;
  if (draw(30) == 0) {
    /* One that locks ends at once: this thread would wait for its locks in vain. */
    alluvium_transaction *locking;
    if (!ended(alluvium_transaction_begin(stores[draw(STORES)], "--locking", &locking))) return;
    ended(alluvium_transaction_put(locking, keyspace, &key, 1, &key, 1, 0));
    alluvium_iterator_free(iterators[i]);
    ended(alluvium_transaction_iterator(locking, keyspace, NULL, &iterators[i]));
    alluvium_transaction_free(locking);
  }
  switch (draw(14)) {
    case 0: alluvium_transaction_free(transactions[t]); ended(alluvium_transaction_begin(stores[draw(STORES)], options[draw(2)], &transactions[t])); break;
    case 1: case 2: case 11: case 12: ended(alluvium_transaction_put(transactions[t], keyspace, &key, 1, &key, 1, 0)); break;
    case 3: alluvium_value_free(values[v]); ended(alluvium_transaction_get(transactions[t], keyspace, &key, 1, draw(4), &values[v])); break;
    case 4: ended(alluvium_transaction_delete(transactions[t], keyspace, &key, 1, 0)); break;
    case 5: alluvium_iterator_free(iterators[i]); ended(alluvium_transaction_iterator(transactions[t], keyspace, NULL, &iterators[i])); break;
    case 6: ended(alluvium_transaction_commit(transactions[t], NULL)); break;
    case 7: ended(alluvium_transaction_rollback(transactions[t])); break;
    case 8: ended(alluvium_transaction_savepoint(transactions[t], &savepoint)); break;
    case 9: ended(alluvium_transaction_rollback_to(transactions[t], 1 + draw(4))); break;
    case 10: if (draw(4) == 0) alluvium_transaction_free(transactions[t]), transactions[t] = NULL; break;
  }
}

static void free_all(void) {
  for (int i = 0; i < STORES; i++) alluvium_store_free(stores[i]);
  for (int i = 0; i < INGESTS; i++) alluvium_ingest_free(ingests[i]);
  for (int i = 0; i < BATCHES; i++) alluvium_batch_free(batches[i]);
  for (int i = 0; i < KEYSPACES; i++) alluvium_keyspace_free(keyspaces[i]);
  for (int i = 0; i < TRANSACTIONS; i++) alluvium_transaction_free(transactions[i]);
  for (int i = 0; i < SNAPSHOTS; i++) alluvium_snapshot_free(snapshots[i]);
  for (int i = 0; i < ITERATORS; i++) alluvium_iterator_free(iterators[i]);
  for (int i = 0; i < VALUES; i++) alluvium_value_free(values[i]);
}

int main(int argc, char **argv) {
  state = 0x9e3779b97f4a7c15u ^ (argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
  uint64_t steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
  for (int i = 0; i < BATCHES; i++) ended(alluvium_batch_create("memory", &batches[i]));
  for (uint64_t step = 0; step < steps; step++) {
    switch (draw(4)) {
      case 0: store_step(); break;
      case 1: record_step(); break;
      case 2: iterator_step(); break;
      case 3: transaction_step(); break;
    }
  }
  free_all();
  printf("steps: %llu; answers:", (unsigned long long)steps);
  for (uint32_t kind = 0; kind < 64; kind++)
    if (kinds[kind]) printf(" %s %llu", alluvium_error_kind_name(kind), (unsigned long long)kinds[kind]);
  printf("\n");
  return 0;
}
