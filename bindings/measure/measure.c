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
static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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

  double began = now();
  for (size_t i = 0; i < records;) {
    for (filled = 0, count = 0; count < BATCH && i < records; count++, i++)
      filled += alluvium_page_put(page + filled, PAGE - filled, keys[i], 16, value, sizeof value);
    require(alluvium_batch_put_page(batch, keyspace, page, filled));
    require(alluvium_write(store, batch));
    alluvium_batch_clear(batch);
  }
  double puts = now() - began;
  require(alluvium_checkpoint(store));

  began = now();
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
  double scan = now() - began;
  if (scanned != records) return 3;

  began = now();
  for (size_t i = records; i-- > 0;) {
    alluvium_value *found;
    require(alluvium_get(keyspace, (const uint8_t *)keys[i], 16, &found));
    alluvium_value_data(found, &length);
    if (length != 100) return 4;
    alluvium_value_free(found);
  }
  double gets = now() - began;
  began = now();
  for (size_t i = records; i-- > 0;) {
    require(alluvium_get_into(keyspace, (const uint8_t *)keys[i], 16, value, sizeof value, &length));
    if (length != 100) return 5;
  }
  double gets_into = now() - began, n = (double)records;
  printf("c puts %.0f\nc scan %.0f\nc gets %.0f\nc gets-into-a-buffer %.0f\n", n / puts, n / scan, n / gets, n / gets_into);
  alluvium_batch_free(batch), alluvium_keyspace_free(keyspace);
  require(alluvium_close(store, 0));
  alluvium_store_free(store);
  return 0;
}
