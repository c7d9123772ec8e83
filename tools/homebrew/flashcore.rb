# Written into dist/ by `npm run package`, with the version and the SHA-256 of the package beside it.
class Flashcore < Formula
  desc "Workbench for FlashAttention kernels, on a GPU host or on a CPU emulator"
  homepage "https://github.com/OWNER/flashcore"
  url "@file@"
  version "@version@"
  sha256 "@sha256@"
  license "Apache-2.0"

  depends_on "node"
  # The emulator runs the GPU's PTX, which clang makes.
  depends_on "llvm"

  def install
    system "npm", "install", *std_npm_args, "--omit=optional"
    bin.install_symlink Dir["#{libexec}/bin/*"]
  end

  def caveats
    <<~EOS
      Jobs and settings outlive this formula: `fa-tui uninstall --purge` removes them.
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/fa-tui --version")
  end
end
