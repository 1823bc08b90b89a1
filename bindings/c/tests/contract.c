/* Runs the cases of bindings/contract on the C interface: contract FILE... The language of the cases is described in
 * bindings/contract/README.md. */
#include "alluvium.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct { uint8_t *data; size_t length; int bare; } word;
typedef struct { char name[32]; char kind; void *handle; uint64_t number; } variable;
static word given[4096], result[65536];
static size_t results;
static variable variables[64];
static size_t variable_count;
static char directory[64], path_buffers[2][512], trouble[512];
static void give(const void *data, size_t length) {
  uint8_t *copy = malloc(length + 1);
  if (length > 0) memcpy(copy, data, length);
  copy[length] = 0;
  result[results++] = (word){copy, length, 0};
}
static void give_text(const char *text) { give(text, strlen(text)); }
static void give_number(uint64_t number) {
  char text[32];
  give(text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)number));
}
static void give_value(alluvium_value *value) {
  size_t length;
  const uint8_t *data = alluvium_value_data(value, &length);
  if (value) give(data, length); else result[results++] = (word){NULL, 0, 1};
  alluvium_value_free(value);
}

/* Splits a line into words: plain ones, or quoted ones with escapes and a count: "ab\x00"*3. Returns the end of the line. */
static size_t split(const char *line, word *words) {
  size_t count = 0;
  for (;;) {
    while (*line == ' ' || *line == '\t') line++;
    if (!*line || *line == '\n' || *line == '#') return count;
    uint8_t *text = malloc(strlen(line) + 1);
    size_t length = 0, times = 1;
    int bare = *line != '"';
    while (bare && *line && *line != ' ' && *line != '\n') text[length++] = (uint8_t)*line++;
    if (!bare) {
      for (line++; *line && *line != '"'; line++) {
        if (*line != '\\') { text[length++] = (uint8_t)*line; continue; }
        char next = *++line, digits[3] = {0};
        if (next == 'x') {
          memcpy(digits, line + 1, 2);
          text[length++] = (uint8_t)strtoul(digits, NULL, 16);
          line += 2;
        } else text[length++] = next == 'n' ? '\n' : next == 't' ? '\t' : (uint8_t)next;
      }
      if (*line) line++;
      if (*line == '*') times = strtoul(line + 1, (char **)&line, 10);
    }
    uint8_t *all = malloc(length * times + 1);
    for (size_t i = 0; i < times; i++) memcpy(all + i * length, text, length);
    all[length * times] = 0;
    free(text);
    words[count++] = (word){all, length * times, bare};
  }
}
static void release(word *words, size_t *count) {
  while (*count > 0) free(words[--*count].data);
}
static int is(word w, const char *text) { return w.data && w.length == strlen(text) && !memcmp(w.data, text, w.length); }
static int is_bare(word w, const char *text) { return w.bare && is(w, text); }
static variable *find(word name) {
  for (size_t i = 0; i < variable_count; i++) if (is(name, variables[i].name)) return &variables[i];
  return NULL;
}
static void release_handle(variable *v) {
  void *h = v->handle;
  if (v->kind == 's') alluvium_store_free(h);
  if (v->kind == 'k') alluvium_keyspace_free(h);
  if (v->kind == 'b') alluvium_batch_free(h);
  if (v->kind == 'i') alluvium_iterator_free(h);
  if (v->kind == 'n') alluvium_ingest_free(h);
  if (v->kind == 'p') alluvium_snapshot_free(h);
  if (v->kind == 't') alluvium_transaction_free(h);
  v->handle = NULL;
}
static variable *name(word w, char kind) {
  variable *v = find(w);
  if (v) release_handle(v); else v = &variables[variable_count++];
  snprintf(v->name, sizeof v->name, "%s", (char *)w.data);
  v->kind = kind, v->handle = NULL;
  return v;
}
static void *handle(word w, char kind) {
  variable *v = find(w);
  if (v && v->kind == kind) return v->handle;
  return snprintf(trouble, sizeof trouble, "there is no variable %s of kind %c", (char *)w.data, kind), NULL;
}
static const char *path(word w, int slot) {
  if (is_bare(w, "memory")) return NULL;
  snprintf(path_buffers[slot], sizeof path_buffers[slot], "%s/%s", directory, (char *)w.data + 1);
  return path_buffers[slot];
}
static const char *text(word *w, size_t n, size_t at) { return at < n ? (char *)w[at].data : NULL; }
static uint64_t number(word *w, size_t n, size_t at) {
  struct timespec now;
  if (at < n && is(w[at], "soon") && timespec_get(&now, TIME_UTC)) return (uint64_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000 + 40);
  return at < n ? strtoull((char *)w[at].data, NULL, 10) : 0;
}
static const uint8_t *optional(word w) { return is_bare(w, "none") ? NULL : w.data; }
static alluvium_range range(word *w, size_t n, size_t at) {
  alluvium_range r = {0};
  for (; at < n; at++) {
    word verb = w[at];
    r.flags |= is(verb, "keys") * ALLUVIUM_RANGE_KEYS_ONLY | is(verb, "unordered") * ALLUVIUM_RANGE_UNORDERED;
    r.flags |= is(verb, "prefix") * ALLUVIUM_RANGE_PREFIX | is(verb, "after") * ALLUVIUM_RANGE_AFTER_START;
    r.flags |= is(verb, "through") * ALLUVIUM_RANGE_THROUGH_END;
    if (is(verb, "to") || is(verb, "through")) r.end = w[++at].data, r.end_length = w[at].length;
    if (is(verb, "from") || is(verb, "after") || is(verb, "prefix")) r.start = w[++at].data, r.start_length = w[at].length;
  }
  return r;
}
/* Reads one page of `size` bytes, or all pages if `size` is 0. */
static alluvium_error *read_pages(void *iterator, uint32_t direction, size_t size) {
  size_t room = size ? size : 200, filled, count;
  uint8_t *page = malloc(room);
  alluvium_error *error;
  while (!(error = alluvium_iterator_page(iterator, direction, page, room, &filled, &count))) {
    const uint8_t *at = page, *key, *value;
    size_t rest = count ? filled : 0, key_length, value_length;
    if (!count && filled > room && !size) { page = realloc(page, room = filled); continue; }
    if (!count && filled > room) { give_text("short"); give_number(filled); }
    while (alluvium_page_next(&at, &rest, &key, &key_length, &value, &value_length)) {
      give(key, key_length);
      give(value, value_length);
    }
    if (!count || size) break;
  }
  return free(page), error;
}

#define DO(verb) if (is(w[0], verb))
#define S(i) handle(w[i], 's')
#define K(i) handle(w[i], 'k')
#define T(i) handle(w[i], 't')
#define B(i) handle(w[i], 'b')
#define BYTES(i) w[i].data, w[i].length
#define MAYBE(i) optional(w[i]), w[i].length
#define NEW(i, kind) ((void *)&name(w[i], kind)->handle)
#define VALUE(call) do { e = call; if (!e) give_value(v); return e; } while (0)
#define FLAG(call) do { e = call; if (!e) give_text(flag ? "true" : "false"); return e; } while (0)
static alluvium_error *store_step(word *w, size_t n, int *known) {
  alluvium_error *e;
  alluvium_value *v = NULL;
  DO("open") return alluvium_open(path(w[2], 0), text(w, n, 3), NEW(1, 's'));
  DO("close") return alluvium_close(S(1), 0);
  DO("force-close") return alluvium_close(S(1), 1);
  DO("free") { variable *f = find(w[1]); if (f) release_handle(f); return NULL; }
  DO("sync") return alluvium_sync(S(1));
  DO("checkpoint") return alluvium_checkpoint(S(1));
  DO("compact") return alluvium_compact(S(1));
  DO("check") VALUE(alluvium_check(S(1), &v));
  DO("stats") VALUE(alluvium_stats(S(1), &v));
  DO("keyspaces") VALUE(alluvium_keyspaces(S(1), &v));
  DO("backup") return alluvium_backup(S(1), path(w[2], 0));
  DO("restore") return alluvium_restore(path(w[1], 0), path(w[2], 1), NULL);
  DO("repair") VALUE(alluvium_repair(path(w[1], 0), NULL, &v));
  DO("keyspace") return alluvium_keyspace_open(S(2), text(w, n, 3), text(w, n, 4), NEW(1, 'k'));
  DO("existing") return alluvium_keyspace_existing(S(2), text(w, n, 3), NEW(1, 'k'));
  DO("drop") return alluvium_keyspace_drop(S(1), text(w, n, 2));
  DO("rename") return alluvium_keyspace_rename(S(1), text(w, n, 2), text(w, n, 3));
  DO("batch") return alluvium_batch_create(text(w, n, 2), NEW(1, 'b'));
  DO("batch-put") return alluvium_batch_put(B(1), K(2), BYTES(3), BYTES(4), number(w, n, 5));
  DO("batch-delete") return alluvium_batch_delete(B(1), K(2), BYTES(3), number(w, n, 4));
  DO("batch-delete-range") return alluvium_batch_delete_range(B(1), K(2), BYTES(3), MAYBE(4));
  DO("batch-merge") return alluvium_batch_merge(B(1), K(2), BYTES(3), BYTES(4));
  DO("batch-count") { give_number(alluvium_batch_count(B(1))); return NULL; }
  DO("batch-clear") { alluvium_batch_clear(B(1)); return NULL; }
  DO("write") return alluvium_write(S(1), B(2));
  DO("ingest") return alluvium_ingest_begin(K(2), NEW(1, 'n'));
  DO("ingest-put") {
    static uint8_t page[100000];
    return alluvium_ingest_put_page(handle(w[1], 'n'), page, alluvium_page_put(page, sizeof page, BYTES(2), BYTES(3)));
  }
  DO("ingest-finish") { uint64_t c; e = alluvium_ingest_finish(handle(w[1], 'n'), &c); if (!e) give_number(c); return e; }
  DO("snapshot") return alluvium_snapshot_create(S(2), text(w, n, 3), NEW(1, 'p'));
  DO("snapshot-open") return alluvium_snapshot_open(S(2), text(w, n, 3), NEW(1, 'p'));
  DO("snapshot-remove") return alluvium_snapshot_remove(S(1), text(w, n, 2));
  DO("sleep") { struct timespec t = {0, (long)number(w, n, 1) * 1000000}; nanosleep(&t, NULL); return NULL; }
  *known = 0;
  return NULL;
}
static alluvium_error *record_step(word *w, size_t n, int *known) {
  alluvium_error *e;
  alluvium_value *v = NULL;
  int32_t flag;
  DO("put") return alluvium_put(K(1), BYTES(2), BYTES(3), number(w, n, 4));
  DO("get") VALUE(alluvium_get(K(1), BYTES(2), &v));
  DO("take") VALUE(alluvium_take(K(1), BYTES(2), &v));
  DO("contains") FLAG(alluvium_contains(K(1), BYTES(2), &flag));
  DO("cas") FLAG(alluvium_compare_and_set(K(1), BYTES(2), MAYBE(3), MAYBE(4), &flag));
  DO("delete") return alluvium_delete(K(1), BYTES(2), number(w, n, 3));
  DO("delete-range") return alluvium_delete_range(K(1), BYTES(2), MAYBE(3));
  DO("merge") return alluvium_merge(K(1), BYTES(2), BYTES(3));
  DO("multi-get") {
    const uint8_t *keys[64];
    alluvium_value *values[64];
    size_t lengths[64];
    for (size_t i = 2; i < n; i++) keys[i - 2] = w[i].data, lengths[i - 2] = w[i].length;
    e = alluvium_multi_get(K(1), n - 2, keys, lengths, values);
    for (size_t i = 2; !e && i < n; i++) give_value(values[i - 2]);
    return e;
  }
  DO("snapshot-get") VALUE(alluvium_snapshot_get(handle(w[1], 'p'), K(2), BYTES(3), &v));
  alluvium_range r = range(w, n, is(w[0], "iter") || is(w[0], "tx-depend") ? 3 : 4);
  DO("snapshot-iter") return alluvium_iterator_create(K(3), handle(w[2], 'p'), &r, NEW(1, 'i'));
  DO("tx-iter") return alluvium_transaction_iterator(T(2), K(3), &r, NEW(1, 'i'));
  DO("tx-depend") return alluvium_transaction_depend_on_range(T(1), K(2), &r);
  DO("iter") return alluvium_iterator_create(K(2), NULL, &r, NEW(1, 'i'));
  DO("rest") return read_pages(handle(w[1], 'i'), ALLUVIUM_FORWARD, 0);
  DO("rest-back") return read_pages(handle(w[1], 'i'), ALLUVIUM_BACKWARD, 0);
  DO("page") return read_pages(handle(w[1], 'i'), ALLUVIUM_FORWARD, number(w, n, 2));
  DO("page-back") return read_pages(handle(w[1], 'i'), ALLUVIUM_BACKWARD, number(w, n, 2));
  DO("seek") return alluvium_iterator_seek(handle(w[1], 'i'), BYTES(2));
  DO("begin") return alluvium_transaction_begin(S(2), text(w, n, 3), NEW(1, 't'));
  int kind = n > 4 ? is(w[4], "untracked") + 2 * is(w[4], "shared") + 3 * is(w[4], "update") : 0;
  DO("tx-get") VALUE(alluvium_transaction_get(T(1), K(2), BYTES(3), (uint32_t)kind, &v));
  DO("tx-put") return alluvium_transaction_put(T(1), K(2), BYTES(3), BYTES(4), number(w, n, 5));
  DO("tx-delete") return alluvium_transaction_delete(T(1), K(2), BYTES(3), number(w, n, 4));
  DO("tx-delete-range") return alluvium_transaction_delete_range(T(1), K(2), BYTES(3), MAYBE(4));
  DO("tx-merge") return alluvium_transaction_merge(T(1), K(2), BYTES(3), BYTES(4));
  DO("savepoint") return alluvium_transaction_savepoint(T(2), &name(w[1], 'v')->number);
  DO("rollback-to") return alluvium_transaction_rollback_to(T(1), find(w[2])->number);
  DO("release") return alluvium_transaction_release(T(1), find(w[2])->number);
  DO("commit") return alluvium_transaction_commit(T(1), text(w, n, 2));
  DO("rollback") return alluvium_transaction_rollback(T(1));
  *known = 0;
  return NULL;
}

/* Runs a line, and compares what comes of it: `= words`, `has part`, `! kind [part]`, or nothing. Returns 1 if it agrees. */
static int run_line(const char *line) {
  size_t n = split(line, given), end = 0;
  if (n == 0) return 1;
  while (end < n && !is_bare(given[end], "=") && !is_bare(given[end], "!") && !is_bare(given[end], "has")) end++;
  word *expected = given + end + 1;
  size_t count = end < n ? n - end - 1 : 0;
  int known = 1, agrees;
  trouble[0] = 0;
  alluvium_error *error = store_step(given, end, &known);
  if (!known) known = 1, error = record_step(given, end, &known);
  const char *kind = alluvium_error_kind_name(alluvium_error_kind(error)), *what = alluvium_error_text(error);
  if (!known) strcpy(trouble, "unknown verb");
  if (trouble[0]) agrees = 0, kind = trouble;
  else if (end < n && is(given[end], "!")) agrees = is(expected[0], kind) && (count < 2 || strstr(what, (char *)expected[1].data));
  else if (error) agrees = 0;
  else if (end < n && is(given[end], "has")) agrees = results == 1 && strstr((char *)result[0].data, (char *)expected[0].data);
  else agrees = end == n || results == count;
  for (size_t i = 0; agrees && !error && end < n && is(given[end], "=") && i < count; i++)
    agrees = result[i].data ? result[i].length == expected[i].length && !memcmp(result[i].data, expected[i].data, result[i].length)
                            : is_bare(expected[i], "absent");
  if (!agrees) printf("  %s  came to: %s %s;", line, kind, what);
  for (size_t i = 0; !agrees && i < results; i++) printf(" %.40s", result[i].data ? (char *)result[i].data : "absent");
  alluvium_error_free(error);
  release(result, &results);
  release(given, &n);
  return agrees;
}
static int run_case(char *steps, const char *structure) {
  char first[200];
  if (!mkdtemp(strcpy(directory, "/tmp/contract-XXXXXX"))) return 0;
  snprintf(first, sizeof first, "keyspace k s k \"--structure %s\"", structure);
  int agrees = run_line("open s memory \"--memory 16M --workers 1\"") && run_line(first);
  for (char *line = strtok(steps, "\n"); line && agrees; line = strtok(NULL, "\n")) agrees = run_line(line);
  while (variable_count > 0) release_handle(&variables[--variable_count]);
  return snprintf(first, sizeof first, "rm -rf %s", directory) && system(first) == 0 && agrees;
}

int main(int argc, char **argv) {
  static char line[1 << 16], title[300], steps[1 << 16], copy[1 << 16];
  static const char *const structures[] = {"tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"};
  size_t cases = 0, runs = 0, failed = 0;
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "r");
    size_t kinds = 1;
    while (file && fgets(line, sizeof line, file)) {
      if (!strncmp(line, "[[case]]", 8)) kinds = 1, steps[0] = 0;
      if (!strncmp(line, "name = ", 7)) snprintf(title, sizeof title, "%.*s", (int)strcspn(line + 8, "\n") - 1, line + 8);
      if (!strncmp(line, "on = \"ordered\"", 14)) kinds = 4;
      if (!strncmp(line, "on = \"all\"", 10)) kinds = 5;
      if (strncmp(line, "steps = '''", 11)) continue;
      while (fgets(line, sizeof line, file) && strncmp(line, "'''", 3)) strcat(steps, line);
      cases++;
      for (size_t kind = 0; kind < kinds; kind++, runs++) {
        if (run_case(strcpy(copy, steps), structures[kind])) continue;
        failed++, printf("\nFAILED: %s (%s, %s)\n", title, argv[i], structures[kind]);
      }
    }
    if (file) fclose(file);
  }
  printf("contract: %zu cases, %zu runs, %zu failed\n", cases, runs, failed);
  return failed != 0 || cases == 0;
}
