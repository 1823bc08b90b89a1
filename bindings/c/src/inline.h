/* The length of a value whose key is absent: see alluvium_get_into. */
#define ALLUVIUM_ABSENT SIZE_MAX

/* Reads the record at the front of a page, and moves `page` and `length` behind it. Returns 1, or 0 if there is no whole
 * record. */
static inline int alluvium_page_next(const uint8_t **page,
                                     size_t *length,
                                     const uint8_t **key,
                                     size_t *key_length,
                                     const uint8_t **value,
                                     size_t *value_length) {
  const uint8_t *at = *page;
  if (*length < 8) {
    return 0;
  }
  uint64_t k = at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
  uint64_t v = at[4] | (uint64_t)at[5] << 8 | (uint64_t)at[6] << 16 | (uint64_t)at[7] << 24;
  if (k + v > *length - 8) {
    return 0;
  }
  *key = at + 8;
  *key_length = (size_t)k;
  *value = at + 8 + k;
  *value_length = (size_t)v;
  *page = at + 8 + k + v;
  *length -= (size_t)(8 + k + v);
  return 1;
}

/* Writes a record to the front of a page of `size` bytes, for alluvium_batch_put_page and alluvium_ingest_put_page. Returns
 * the bytes that it occupies, or 0 if the page is too short. */
static inline size_t alluvium_page_put(uint8_t *page,
                                       size_t size,
                                       const void *key,
                                       size_t key_length,
                                       const void *value,
                                       size_t value_length) {
  uint64_t k = key_length, v = value_length;
  if (k > UINT32_MAX || v > UINT32_MAX || k + v + 8 > size) {
    return 0;
  }
  for (int i = 0; i < 4; i++) {
    page[i] = (uint8_t)(k >> (8 * i));
    page[4 + i] = (uint8_t)(v >> (8 * i));
  }
  if (k > 0) {
    memcpy(page + 8, key, (size_t)k);
  }
  if (v > 0) {
    memcpy(page + 8 + k, value, (size_t)v);
  }
  return (size_t)(8 + k + v);
}
