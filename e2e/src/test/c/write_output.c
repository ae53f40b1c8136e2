// Writes BYTES bytes to its standard output, SIZE bytes in each write, lines or not: write_output SIZE BYTES.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: write_output SIZE BYTES\n");
    return 2;
  }
  size_t size = strtoul(argv[1], NULL, 10);
  size_t left = strtoul(argv[2], NULL, 10);
  char *piece = malloc(size);
  if (size == 0 || piece == NULL) {
    return 2;
  }
  // Lines of 100 bytes, the last byte of each a newline.
  for (size_t i = 0; i < size; i++) {
    piece[i] = i % 100 == 99 ? '\n' : (char)('a' + i % 26);
  }
  while (left > 0) {
    ssize_t written = write(STDOUT_FILENO, piece, left < size ? left : size);
    if (written <= 0) {
      perror("write_output");
      return 1;
    }
    left -= (size_t)written;
  }
  return 0;
}
