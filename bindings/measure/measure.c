/* Measures batched puts, a paged scan and single gets in C: measure PATH RECORDS. */
#include <alluvium.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 1000, PAGE = 1 << 18 };

static void require(alluvium_error *error) {
  if (error) {
    fprintf(stderr, "%s\n", alluvium_error_text(error));
    exit(1);
  }
}
static double began[2];
static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void start(void) {
  began[0] = now(CLOCK_MONOTONIC);
  began[1] = now(CLOCK_THREAD_CPUTIME_ID);
}
static void stop(const char *what, size_t records) {
  double wall = now(CLOCK_MONOTONIC) - began[0], processor = now(CLOCK_THREAD_CPUTIME_ID) - began[1];
  printf("c %s %.0f %.0f\n", what, (double)records / wall, (double)records / processor);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  size_t records = strtoull(argv[2], NULL, 10), length, filled, count;
  char(*keys)[17] = malloc(records * sizeof *keys);
  for (size_t i = 0; i < records; i++) snprintf(keys[i], 17, "%016" PRIx64, (uint64_t)i * 0x9e3779b97f4a7c15u);
  static uint8_t value[100], page[PAGE];
  memset(value, 'v', sizeof value);
  alluvium_store *store;
  alluvium_keyspace *keyspace;
  alluvium_batch *batch;
  require(alluvium_open(argv[1], "--memory 256M", &store));
  require(alluvium_keyspace_open(store, "k", NULL, &keyspace));
  require(alluvium_batch_create(NULL, &batch));

  start();
  for (size_t i = 0; i < records;) {
    for (filled = 0, count = 0; count < BATCH && i < records; count++, i++)
      filled += alluvium_page_put(page + filled, PAGE - filled, keys[i], 16, value, sizeof value);
    require(alluvium_batch_put_page(batch, keyspace, page, filled));
    require(alluvium_write(store, batch));
    alluvium_batch_clear(batch);
  }
  stop("puts", records);
  require(alluvium_checkpoint(store));

  start();
  alluvium_iterator *iterator;
  size_t scanned = 0;
  require(alluvium_iterator_create(keyspace, NULL, NULL, &iterator));
  for (;;) {
    require(alluvium_iterator_page(iterator, ALLUVIUM_FORWARD, page, 65536, &filled, &count));
    if (count == 0) break;
    const uint8_t *at = page, *k, *v;
    size_t k_length, v_length;
    while (alluvium_page_next(&at, &filled, &k, &k_length, &v, &v_length)) scanned += k_length == 16 && v[99] == 'v';
  }
  alluvium_iterator_free(iterator);
  stop("scan", records);
  if (scanned != records) return 3;

  /* The first pass fills the caches. */
  for (int pass = 0; pass < 2; pass++) {
    start();
    for (size_t i = records; i-- > 0;) {
      alluvium_value *found;
      require(alluvium_get(keyspace, (const uint8_t *)keys[i], 16, &found));
      alluvium_value_data(found, &length);
      if (length != 100) return 4;
      alluvium_value_free(found);
    }
    stop(pass ? "gets" : "first-gets", records);
  }
  start();
  for (size_t i = records; i-- > 0;) {
    require(alluvium_get_into(keyspace, (const uint8_t *)keys[i], 16, value, sizeof value, &length));
    if (length != 100) return 5;
  }
  stop("gets-into-a-buffer", records);
  alluvium_batch_free(batch), alluvium_keyspace_free(keyspace);
  require(alluvium_close(store, 0));
  alluvium_store_free(store);
  return 0;
}
