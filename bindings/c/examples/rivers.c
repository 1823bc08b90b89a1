/* Stores the lengths of some rivers, reads them, and counts a visit in a transaction. */
#include "alluvium.h"
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with an error, if there is one. */
static void require(alluvium_error *error) {
  if (error) {
    fprintf(stderr, "%s: %s\n", alluvium_error_kind_name(alluvium_error_kind(error)), alluvium_error_text(error));
    alluvium_error_free(error);
    exit(1);
  }
}

int main(int argc, char **argv) {
  static const char *const rivers[][2] = {{"Elbe", "1094 km"}, {"Oder", "840 km"}, {"Rhine", "1233 km"}};
  alluvium_store *store;
  alluvium_keyspace *lengths, *visits;
  require(alluvium_open(argc > 1 ? argv[1] : "rivers", "--memory 64M", &store));
  require(alluvium_keyspace_open(store, "lengths", NULL, &lengths));
  require(alluvium_keyspace_open(store, "visits", "--merge-operator append", &visits));

  /* Several writes that happen together. */
  alluvium_batch *batch;
  require(alluvium_batch_create("disk", &batch));
  for (int i = 0; i < 3; i++) {
    const uint8_t *key = (const uint8_t *)rivers[i][0], *value = (const uint8_t *)rivers[i][1];
    require(alluvium_batch_put(batch, lengths, key, strlen(rivers[i][0]), value, strlen(rivers[i][1]), 0));
  }
  require(alluvium_write(store, batch));
  alluvium_batch_free(batch);

  /* A transaction. */
  alluvium_transaction *transaction;
  alluvium_value *value;
  size_t length;
  require(alluvium_transaction_begin(store, NULL, &transaction));
  require(alluvium_transaction_get(transaction, lengths, (const uint8_t *)"Oder", 4, ALLUVIUM_READ_TRACKED, &value));
  if (value) {
    const uint8_t *data = alluvium_value_data(value, &length);
    printf("the Oder is %.*s long\n", (int)length, (const char *)data);
    require(alluvium_transaction_merge(transaction, visits, (const uint8_t *)"Oder", 4, (const uint8_t *)"|", 1));
  }
  alluvium_value_free(value);
  require(alluvium_transaction_commit(transaction, NULL));
  alluvium_transaction_free(transaction);

  /* Pages of records, from the end. */
  alluvium_iterator *iterator;
  uint8_t page[4096];
  size_t filled, count;
  require(alluvium_iterator_create(lengths, NULL, NULL, &iterator));
  for (;;) {
    require(alluvium_iterator_page(iterator, ALLUVIUM_BACKWARD, page, sizeof page, &filled, &count));
    if (count == 0) break;
    const uint8_t *at = page, *k, *v;
    size_t k_length, v_length;
    while (alluvium_page_next(&at, &filled, &k, &k_length, &v, &v_length)) {
      printf("%.*s\t%.*s\n", (int)k_length, (const char *)k, (int)v_length, (const char *)v);
    }
  }
  alluvium_iterator_free(iterator);

  alluvium_keyspace_free(lengths);
  alluvium_keyspace_free(visits);
  require(alluvium_close(store, 0));
  alluvium_store_free(store);
  return 0;
}
