# A perceptron that learns to read digits of 5 x 7 dots, some of which are wrong. EPOCHS says how long it learns.

function glyph(digit, dots) { glyphs[digit] = dots }

# Draws a digit into image[], with each dot wrong at times. image[0] is always 1.
function draw(digit,    i) {
  image[0] = 1
  for (i = 1; i <= 35; i++) {
    image[i] = (substr(glyphs[digit], i, 1) == "#") != (rand() < 0.05)
  }
}

# The digit that image[] looks like most.
function read(    digit, i, score, best, best_score) {
  for (digit = 0; digit < 10; digit++) {
    score = 0
    for (i = 0; i <= 35; i++) score += weight[digit, i] * image[i]
    if (digit == 0 || score > best_score) {
      best = digit
      best_score = score
    }
  }
  return best
}

BEGIN {
  glyph(0, ".###." "#...#" "#..##" "#.#.#" "##..#" "#...#" ".###.")
  glyph(1, "..#.." ".##.." "..#.." "..#.." "..#.." "..#.." ".###.")
  glyph(2, ".###." "#...#" "....#" "...#." "..#.." ".#..." "#####")
  glyph(3, "#####" "...#." "..#.." "...#." "....#" "#...#" ".###.")
  glyph(4, "...#." "..##." ".#.#." "#..#." "#####" "...#." "...#.")
  glyph(5, "#####" "#...." "####." "....#" "....#" "#...#" ".###.")
  glyph(6, "..##." ".#..." "#...." "####." "#...#" "#...#" ".###.")
  glyph(7, "#####" "....#" "...#." "..#.." ".#..." ".#..." ".#...")
  glyph(8, ".###." "#...#" "#...#" ".###." "#...#" "#...#" ".###.")
  glyph(9, ".###." "#...#" "#...#" ".####" "....#" "...#." ".##..")
  srand(1)
  epochs = "EPOCHS" in ENVIRON ? ENVIRON["EPOCHS"] : 10
  print "GPUs of the server: NV_GPU=" ENVIRON["NV_GPU"]
  print "seen in the job as: CUDA_VISIBLE_DEVICES=" ENVIRON["CUDA_VISIBLE_DEVICES"]
  print "awk computes on the CPU, for " epochs " epochs"

  for (epoch = 1; epoch <= epochs; epoch++) {
    wrong = 0
    for (n = 0; n < 500; n++) {
      digit = n % 10
      draw(digit)
      said = read()
      if (said != digit) {
        wrong++
        for (i = 0; i <= 35; i++) {
          weight[digit, i] += image[i]
          weight[said, i] -= image[i]
        }
      }
    }
    print "epoch " epoch ": " wrong " of 500 wrong"
  }

  for (n = 0; n < 500; n++) {
    draw(n % 10)
    right += read() == n % 10
  }
  printf "accuracy %.3f on 500 digits that were not in the training\n", right / 500
  if (right < 450) {
    printf "it has not learned: the accuracy %.3f is below 0.900\n", right / 500 >"/dev/stderr"
    exit 1
  }
}
